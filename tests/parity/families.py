"""Each family of encoders with each kind of head: our network beside that of transformers, on the same weights and token ids."""

import dataclasses
import os
import subprocess

import support
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.trainer_pt_utils import get_parameter_names
from transformers.utils import logging

torch.set_num_threads(1)
logging.disable_progress_bar()
logging.set_verbosity_error()

MODEL_OF_TASK = {"sequence": AutoModelForSequenceClassification, "token": AutoModelForTokenClassification}
NUM_LABELS = 3
BATCH_ROWS = 6
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.05
# RoBERTa's. An update divides a gradient by its own size: what is zero in theory and noise in practice must stay small beside eps.
EPS = 1e-6
SMALL = {"vocab_size": len(support.vocabulary()), "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 72}
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.2, "classifier_dropout": 0.1}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_position_embeddings": 64}

# name -> (model_type, what its config sets besides SMALL). Where rows of 60 tokens are longer than a window or its buckets,
# both ways of a family are taken.
VARIANTS = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {"type_vocab_size": 1, "pad_token_id": 1}),
    "roberta, other padding": ("roberta", {"type_vocab_size": 2, "pad_token_id": 3, "hidden_act": "relu"}),
    "xlm-roberta": ("xlm-roberta", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "camembert": ("camembert", {"type_vocab_size": 1}),
    "distilbert": ("distilbert", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}),
    "electra": ("electra", {"embedding_size": 24}),
    "electra, not projected": ("electra", {"embedding_size": 32}),
    "albert": ("albert", {"embedding_size": 16}),
    "albert, groups": ("albert", {"embedding_size": 16, "num_hidden_groups": 2, "inner_group_num": 2,
                                  "num_hidden_layers": 4}),
    "mpnet": ("mpnet", {}),
    "deberta-v3": ("deberta-v2", {**DEBERTA, "share_att_key": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm",
                                  "position_biased_input": False, "type_vocab_size": 0}),
    "deberta-v2, own projections": ("deberta-v2", {**DEBERTA, "position_buckets": 16, "type_vocab_size": 2,
                                                   "embedding_size": 24}),
    "deberta-v2, exact distances": ("deberta-v2", {**DEBERTA, "max_relative_positions": 20, "share_att_key": True}),
    "deberta-v2, c2p": ("deberta-v2", {**DEBERTA, "pos_att_type": "c2p", "pooler_hidden_act": "tanh", "position_buckets": 16}),
    "modernbert": ("modernbert", {"local_attention": 16, "num_hidden_layers": 4, "pad_token_id": 0}),
    "modernbert, mean, biases": ("modernbert", {"local_attention": 128, "pad_token_id": 0, "classifier_pooling": "mean",
                                                "attention_bias": True, "mlp_bias": True, "norm_bias": True,
                                                "classifier_bias": True, "global_attn_every_n_layers": 2}),
}


@dataclasses.dataclass
class Rows:
    """Token ids, where second segments begin, and labels of rows (or of each token of them)."""

    ids: list
    second_segments: list
    labels: dict

    def take(self, numbers):
        return Rows([self.ids[n] for n in numbers], [self.second_segments[n] for n in numbers],
                    {task: [values[n] for n in numbers] for task, values in self.labels.items()})


def make_rows(lengths=(2, 60, 17, 3, 33, 9, 60, 5, 41, 2, 12, 28, 1, 50), seed=3):
    """Rows of ids above every special token; most have a second segment."""
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(5, SMALL["vocab_size"], (length,), generator=generator) for length in lengths]
    return Rows(ids, [length if number % 3 == 0 else (length + 1) // 2 for number, length in enumerate(lengths)],
                {"sequence": [int(torch.randint(NUM_LABELS, (), generator=generator)) for _ in lengths],
                 "token": [torch.randint(NUM_LABELS, (length,), generator=generator) for length in lengths]})


def config_of(variant, **changes):
    model_type, settings = VARIANTS[variant]
    own_names = {"distilbert": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    small = {key: value for key, value in SMALL.items() if key not in own_names.get(model_type, ())}
    return AutoConfig.for_model(model_type, **{**small, **settings, **changes}, num_labels=NUM_LABELS)


def save_model(directory, variant, task, seed=11, scale=0.1):
    """A directory that transformers itself wrote, every parameter clearly unlike its initial value."""
    model = MODEL_OF_TASK[task].from_config(config_of(variant))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(values + 1 if parameter.dim() == 1 and name.endswith("weight") else values)
    model.save_pretrained(directory)
    return directory


def load_model(directory, task):
    """The model in float32, without dropout and with eager attention; every weight must come from the directory."""
    model, info = MODEL_OF_TASK[task].from_pretrained(directory, attn_implementation="eager", output_loading_info=True,
                                                      dtype=torch.float32)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def arguments_of(config, rows):
    """Rows as the arguments of a Hugging Face model, as its own tokenizer would give them."""
    width = max(len(ids) for ids in rows.ids)
    padding = config.pad_token_id or 0
    batch = {"input_ids": torch.full((len(rows.ids), width), padding),
             "attention_mask": torch.zeros(len(rows.ids), width, dtype=torch.long)}
    types = torch.zeros(len(rows.ids), width, dtype=torch.long)
    for number, (ids, second) in enumerate(zip(rows.ids, rows.second_segments)):
        batch["input_ids"][number, :len(ids)] = ids
        batch["attention_mask"][number, :len(ids)] = 1
        types[number, second:len(ids)] = 1
    if getattr(config, "type_vocab_size", 0) > 1:
        batch["token_type_ids"] = types
    return batch


def expected_logits(model, rows, task):
    """[R, C], or of every token [T, C]."""
    batch = arguments_of(model.config, rows)
    logits = model(**batch).logits
    return logits if task == "sequence" else logits[batch["attention_mask"].bool()]


def expected_loss(model, rows, task):
    labels = torch.tensor(rows.labels[task]) if task == "sequence" else torch.cat(rows.labels[task])
    logits = expected_logits(model, rows, task)
    return torch.nn.functional.cross_entropy(logits, labels), logits


def parameter_groups(model):
    """The two groups of transformers' Trainer: no decay for biases and norms."""
    decayed = set(get_parameter_names(model, [torch.nn.LayerNorm],
                                      [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]))
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if n in decayed], "weight_decay": WEIGHT_DECAY},
            {"params": [p for n, p in named if n not in decayed], "weight_decay": 0.0}]


def windows(num_rows, count):
    """The rows of `count` updates, epoch after epoch."""
    epoch = [range(first, min(first + BATCH_ROWS, num_rows)) for first in range(0, num_rows, BATCH_ROWS)]
    return [epoch[number % len(epoch)] for number in range(count)]


def probe(folder, directory, rows, task, steps, **options):
    """What our network computes; see network_probe.cpp."""
    offsets = torch.tensor([0, *(len(ids) for ids in rows.ids)]).cumsum(0)
    labels = torch.tensor(rows.labels[task]) if task == "sequence" else torch.cat(rows.labels[task])
    save_file({"input_ids": torch.cat(rows.ids).to(torch.int32), "row_offsets": offsets, "labels": labels,
               "second_segments": torch.tensor(rows.second_segments, dtype=torch.int32)}, folder / "rows.safetensors")
    support.write_json(folder / "options.json",
                       {"head": task, "num_labels": NUM_LABELS, "steps": steps, "batch_rows": BATCH_ROWS,
                        "learning_rate": LEARNING_RATE, "weight_decay": WEIGHT_DECAY, "eps": EPS, **options})
    command = [os.environ["FINETUNE_NETWORK_PROBE"], directory, folder / "rows.safetensors", folder / "seen.safetensors",
               folder / "options.json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=support.DEADLINE_SECONDS, env=support.environment())
    assert done.returncode == 0, done.stderr
    return {name: tensor.clone() for name, tensor in load_file(folder / "seen.safetensors").items()}


def gradient_differences(seen, model):
    """Of each parameter, over the largest gradient of the model."""
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert {name.removeprefix("grad/") for name in seen if name.startswith("grad/")} == set(expected)
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    return {name: (seen["grad/" + name] - gradient).abs().max().item() / largest for name, gradient in expected.items()}


def largest(difference):
    return difference.abs().max().item()


def differences(folder, variant, task):
    """The measures of tolerances.py, of ten AdamW updates on rows of 1 to 60 tokens."""
    directory = save_model(folder / "model", variant, task)
    rows = make_rows()
    seen = probe(folder, directory, rows, task, steps=10)
    model = load_model(directory, task)
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=LEARNING_RATE, eps=EPS)
    result, losses = {}, []
    for number, window in enumerate(windows(len(rows.ids), 10)):
        loss, logits = expected_loss(model, rows.take(window), task)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if number == 0:
            result["logits"] = largest(seen["logits"] - logits)
            result["loss"] = abs(seen["loss"].item() - loss.item())
            result["gradients"] = max(gradient_differences(seen, model).values())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert abs(losses[-1] - losses[0]) > 0.005, "ten updates must change the loss"
    with torch.no_grad():
        logits = expected_logits(model, rows, task)
    result["ten steps, losses"] = largest(seen["losses"] - torch.tensor(losses, dtype=torch.float64))
    result["ten steps, logits"] = largest(seen["final_logits"] - logits)
    return result
