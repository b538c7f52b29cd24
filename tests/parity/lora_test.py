"""Adapters against PEFT: the losses and weights of a training, and the folder that a run leaves."""

import json

import families
import numpy as np
import peft
import pytest
import reference
import support
import tolerances
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

LABELS = list(support.TOPICS)
NUM_ROWS, BATCH, STEPS = 20, 8, 6
# The families' spellings of queries and values, and layers of other shapes.
TARGETS = {"bert": ["query", "value", "intermediate"], "roberta": ["query", "value"], "distilbert": ["q_lin", "lin1"],
           "electra": ["value", "embeddings_project"], "albert": ["query", "ffn_output"], "mpnet": ["attn[.]q", "attn[.]o"],
           "deberta-v3": ["query_proj", "key_proj"], "deberta-v2, own projections": ["value_proj", "pos_key_proj"],
           "modernbert": ["Wqkv", "Wo"]}


def settings(variant, **lora):
    return {"rank": 3, "alpha": 12, "targets": TARGETS[variant], **lora}


def make_config(folder, variant, lora, **changes):
    model = folder / "encoder"
    families.save_model(model, variant, "sequence")
    support.write_tokenizer(model)
    rows = support.make_rows(NUM_ROWS, seed=9)
    data = support.write_csv(folder / "train.csv", rows)
    base = {"task": {"labels": LABELS}, "data": {"shuffle": False}, "train": {"batch_size": BATCH, "max_steps": STEPS},
            "model": {"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0, "lora": lora},
            "optimizer": {"type": "adamw", "learning_rate": 1e-3, "weight_decay": 0, "eps": 1e-6, "max_grad_norm": 0},
            "schedule": {"type": "constant", "warmup": 0}}
    config = support.write_config(folder / "config.json", model, data, **support.merged(base, changes))
    return model, data, config, [LABELS.index(label) for _, label in rows]


def with_adapters(directory, first, lora):
    """The reference, which begins from the adapters that the program drew."""
    model = AutoModelForSequenceClassification.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)
    layers = [name.removeprefix("param/").removesuffix(".lora_A.weight") for name in first
              if name.startswith("param/") and name.endswith(".lora_A.weight")]
    assert layers
    head = [name for name, module in model.named_children() if name != model.base_model_prefix and list(module.parameters())]
    pooler = [f"{model.base_model_prefix}.pooler"] if getattr(model.base_model, "pooler", None) is not None else []
    config = peft.LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules=layers, modules_to_save=head + pooler)
    wrapped = peft.get_peft_model(model, config).eval()
    named = dict(wrapped.named_parameters())
    with torch.no_grad():
        for layer in layers:
            for part in ("lora_A", "lora_B"):
                named[f"base_model.model.{layer}.{part}.default.weight"].copy_(first[f"param/{layer}.{part}.weight"])
    return wrapped


@pytest.mark.parametrize("variant", TARGETS)
def test_training(tmp_path, variant):
    lora = settings(variant)
    directory, _, config, labels = make_config(tmp_path, variant, lora)
    first = reference.probe(config, tmp_path / "first.safetensors", 1, f"train.batch_size={NUM_ROWS}", "optimizer.learning_rate=0")
    bounds = {name: 1 / value.shape[1]**0.5 for name, value in first.items() if name.startswith("param/") and name.endswith("lora_A.weight")}
    assert all(0.5 * bound < first[name].abs().max() <= bound for name, bound in bounds.items())
    seen = reference.probe(config, tmp_path / "seen.safetensors", STEPS)
    model = with_adapters(directory, first, lora)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0, eps=1e-6)
    rows = families.Rows([ids for ids, _ in reference.rows_of(first)], [len(ids) for ids, _ in reference.rows_of(first)],
                         {"sequence": labels})
    losses = []
    for window in reference.windows_in_file_order(NUM_ROWS, BATCH, STEPS):
        loss, _ = families.expected_loss(model, rows.take(window), "sequence")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert seen["losses"].tolist() == pytest.approx(losses, rel=1e-5)
    compared = 0
    for name, value in model.named_parameters():
        if not value.requires_grad:
            continue
        ours = name.removeprefix("base_model.model.").replace(".default", "").replace("modules_to_save.", "")
        assert (seen["param/" + ours] - value).abs().max().item() < 1e-4, ours
        compared += 1
    learning = {name.removeprefix("grad/") for name in seen if name.startswith("grad/")}
    assert compared == len(learning) and all("lora_" in name or not name.startswith("bert.encoder") for name in learning)


@pytest.mark.parametrize("variant", ["bert", "deberta-v3", "modernbert"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_what_a_run_leaves(tmp_path, variant, dropout):
    """PEFT's model on our adapter, transformers' on the merged directory, and the program give the same logits."""
    directory, data, config, _ = make_config(tmp_path, variant, settings(variant, dropout=dropout))
    support.finetune("--config", config, "--quiet")
    run = tmp_path / "run"
    support.finetune("predict", "--model", run / "model", "--device", "cpu", "--input", data, "--output", tmp_path / "answers",
                     "--logits", tmp_path / "logits.npy")
    ours = torch.from_numpy(np.load(tmp_path / "logits.npy"))
    texts = "".join(text + "\n" for text, _ in support.make_rows(NUM_ROWS, seed=9))
    ids = [torch.tensor(row["input_ids"]) for row in support.finetune("tokenize", "--model", run / "model", stdin=texts).lines()]
    rows = families.Rows(ids, [len(row) for row in ids], {})

    merged, info = AutoModelForSequenceClassification.from_pretrained(run / "model", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    base = AutoModelForSequenceClassification.from_pretrained(directory, num_labels=len(LABELS))
    adapted = peft.PeftModel.from_pretrained(base, run / "adapter")
    with torch.no_grad():
        for model in (merged, adapted):
            expected = families.expected_logits(model.eval(), rows, "sequence")
            assert families.largest(ours - expected) < tolerances.MEASURES["logits"]

    before, after = load_file(directory / "model.safetensors"), load_file(run / "model" / "model.safetensors")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    layers = json.loads((run / "adapter" / "adapter_config.json").read_text())["target_modules"]
    in_encoder = {name.removesuffix(".weight") for name in moved if name.removesuffix(".weight") in layers}
    assert in_encoder == set(layers)
    assert not any(name.startswith(("bert.encoder", "deberta.encoder", "model.layers")) and name.removesuffix(".weight") not in layers
                   for name in moved)
