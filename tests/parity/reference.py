"""The Python reference: Hugging Face models on the rows that the program encoded, trained with PyTorch's optimizers."""

import os
import subprocess

import support
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, get_scheduler

torch.set_num_threads(1)


def probe(config, output, steps, *overrides):
    """Runs the first updates of a run and returns what the probe saw; see probe.cpp."""
    command = [os.environ["FINETUNE_PARITY_PROBE"], config, output, steps, *overrides]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=support.DEADLINE_SECONDS, env=support.environment())
    assert done.returncode == 0, done.stderr
    # Copied out of the file's mapping: a test may have the file written again.
    return {name: tensor.clone() for name, tensor in load_file(output).items()}


def save_classifier(directory, num_labels, seed=11, scale=0.1, **changes):
    """A Hugging Face directory that transformers itself wrote, every parameter clearly unlike its default."""
    directory.mkdir(parents=True)
    settings = {key: value for key, value in support.bert_config(**changes).items() if key != "architectures"}
    model = BertForSequenceClassification(BertConfig(**settings, num_labels=num_labels))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(values + 1 if name.endswith("LayerNorm.weight") else values)
    model.save_pretrained(directory)
    support.write_tokenizer(directory)
    return directory


def load_classifier(directory, **options):
    """The model in float64, so that its own rounding is no part of a difference, without dropout and with eager attention; every
    weight must come from the directory."""
    model, info = BertForSequenceClassification.from_pretrained(
        directory, attn_implementation="eager", output_loading_info=True, dtype=torch.float64, **options)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def padded(rows):
    """Rows of (input_ids, token_type_ids) as the arguments of a Hugging Face model."""
    width = max(len(ids) for ids, _ in rows)
    batch = {key: torch.zeros(len(rows), width, dtype=torch.long)
             for key in ("input_ids", "token_type_ids", "attention_mask")}
    for number, (ids, types) in enumerate(rows):
        batch["input_ids"][number, :len(ids)] = torch.as_tensor(ids)
        batch["token_type_ids"][number, :len(ids)] = torch.as_tensor(types)
        batch["attention_mask"][number, :len(ids)] = 1
    return batch


def rows_of(seen):
    """The probe's packed rows one by one."""
    lengths = seen["lengths"].tolist()
    return list(zip(seen["input_ids"].split(lengths), seen["token_type_ids"].split(lengths)))


def loss_of(model, rows, labels, smoothing=0.0):
    logits = model(**padded(rows)).logits
    return torch.nn.functional.cross_entropy(logits, torch.as_tensor(labels), label_smoothing=smoothing), logits


def decay_groups(model, weight_decay):
    """Hugging Face's two groups: no decay for biases and LayerNorm weights."""
    plain = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if not n.endswith(plain)], "weight_decay": weight_decay},
            {"params": [p for n, p in named if n.endswith(plain)], "weight_decay": 0.0}]


def train(model, windows, rows, labels, optimizer, schedule="constant", warmup=0, max_norm=1.0):
    """One update for each window of row numbers. Returns the losses and the norms of the gradients."""
    scheduler = get_scheduler(schedule, optimizer, num_warmup_steps=warmup, num_training_steps=len(windows))
    losses, norms = [], []
    for window in windows:
        loss, _ = loss_of(model, [rows[r] for r in window], [labels[r] for r in window])
        optimizer.zero_grad()
        loss.backward()
        limit = max_norm if max_norm > 0 else float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses, norms


def windows_in_file_order(num_rows, size, count):
    """The rows of `count` updates, epoch after epoch; the last window of an epoch may be short."""
    epoch = [list(range(first, min(first + size, num_rows))) for first in range(0, num_rows, size)]
    return [epoch[number % len(epoch)] for number in range(count)]


def gradient_error(seen, model):
    """The largest difference of a gradient, over the largest gradient of the model; and where it is."""
    expected = {name: p.grad for name, p in model.named_parameters()}
    assert {name.removeprefix("grad/") for name in seen if name.startswith("grad/")} == set(expected)
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    return max(((seen["grad/" + name] - gradient).abs().max().item() / largest, name)
               for name, gradient in expected.items())
