"""Masked language models: what is hidden, the network against transformers', and the directory's way into a classifier."""

import json

import numpy as np
import pytest
import reference
import support
import tolerances
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification

FRACTION = 0.3
SPECIAL = (0, 2, 3, 4)  # [PAD], [CLS], [SEP], [MASK] of the tests' vocabulary
SMALL = {"vocab_size": len(support.vocabulary()), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 72}
FAMILIES = {"bert": {}, "roberta": {"type_vocab_size": 1, "pad_token_id": 0}, "mpnet": {},
            "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}}


def save_model(directory, family, seed=5):
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(family, **{**SMALL, **FAMILIES[family]}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.copy_(values + 1 if parameter.dim() == 1 and name.endswith("weight") else values)
    model.save_pretrained(directory)
    support.write_tokenizer(directory)
    return directory


def write_texts(path, count, seed):
    path.write_text("".join(text + "\n" for text, _ in support.make_rows(count, seed=seed, longest=30)))
    return path


def write_config(folder, encoder, texts, **changes):
    base = {"task": {"type": "masked_lm", "mask_fraction": FRACTION}, "data": {"shuffle": False, "label": None, "text": None},
            "model": {"dropout": 0, "attention_dropout": 0}, "train": {"batch_size": 64},
            "schedule": {"type": "constant", "warmup": 0}, "optimizer": {"learning_rate": 1e-3}}
    return support.write_config(folder / "config.json", encoder, texts, **support.merged(base, changes))


def mixed(x):
    """SplitMix64's output function."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(seed, step, row, position, purpose):
    with np.errstate(over="ignore"):
        stream = mixed(mixed(np.uint64(seed + (purpose << 40))) ^ np.uint64(step))
        return int(mixed(stream ^ mixed(np.uint64((row << 32) + position))) >> np.uint64(33))


def hide(rows, seed, step):
    """Masking as hidden_tokens.h says: the rows as shown, and of each row the positions to tell."""
    shown, places = [], []
    for row, ids in enumerate(rows):
        ids = list(ids)
        order = sorted(range(len(ids)), key=lambda at: (2**31 if ids[at] in SPECIAL else draw(seed, step, row, at, 1), at))
        count = max(1, int(FRACTION * (len(ids) - 2) + 0.5)) if len(ids) > 2 else 0
        new = list(ids)
        for at in order[:count]:
            kind = draw(seed, step, row, at, 2) / 2**31
            new[at] = 4 if kind < 0.8 else draw(seed, step, row, at, 3) % len(support.vocabulary()) if kind < 0.9 else ids[at]
        shown.append(new)
        places.append(order[:count])
    return shown, places


@pytest.mark.parametrize("family", FAMILIES)
def test_network(tmp_path, family):
    directory = save_model(tmp_path / "model", family)
    config = write_config(tmp_path, directory, write_texts(tmp_path / "texts.txt", 24, seed=1))
    seen = reference.probe(config, tmp_path / "seen.safetensors", 10)
    rows = [ids.tolist() for ids, _ in reference.rows_of(seen)]
    model = AutoModelForMaskedLM.from_pretrained(directory, attn_implementation="eager").eval()

    def loss_at(step):
        shown, places = hide(rows, 42, step)
        width = max(map(len, shown))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in shown])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in shown])
        logits = model(input_ids=ids, attention_mask=mask).logits
        told = torch.cat([logits[row, at] for row, at in enumerate(places)])
        gold = torch.tensor([rows[row][at] for row, of_row in enumerate(places) for at in of_row])
        return torch.nn.functional.cross_entropy(told, gold), told

    loss, logits = loss_at(0)
    loss.backward()
    assert (seen["logits"] - logits.detach()).abs().max().item() < tolerances.MEASURES["logits"]
    assert seen["loss"].item() == pytest.approx(loss.item(), abs=tolerances.MEASURES["loss"])
    assert reference.gradient_error(seen, model)[0] < tolerances.MEASURES["gradients"]
    optimizer = torch.optim.AdamW(reference.decay_groups(model, 0.01), lr=1e-3)
    losses = []
    for step in range(10):
        optimizer.zero_grad()
        loss, _ = loss_at(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert seen["losses"].tolist() == pytest.approx(losses, rel=1e-4)


def test_what_is_hidden():
    """The shares that BERT was trained with, and other tokens at another step."""
    rows = [[2, *[7 + at % 60 for at in range(40)], 3] for _ in range(200)]
    shown, places = hide(rows, 1, 0)
    assert all(len(set(of_row)) == len(of_row) == 12 and 0 not in of_row and 41 not in of_row for of_row in places)
    pairs = [(rows[row][at], shown[row][at]) for row, of_row in enumerate(places) for at in of_row]
    assert sum(new == 4 for _, new in pairs) / len(pairs) == pytest.approx(0.8, abs=0.03)
    assert sum(new == old for old, new in pairs) / len(pairs) == pytest.approx(0.1, abs=0.03)
    assert hide(rows, 1, 1)[1] != places


def test_masking_does_not_depend_on_how_an_update_is_computed(tmp_path):
    config = write_config(tmp_path, save_model(tmp_path / "model", "bert"), write_texts(tmp_path / "texts.txt", 24, seed=1))
    whole = reference.probe(config, tmp_path / "whole.safetensors", 3)
    parts = reference.probe(config, tmp_path / "parts.safetensors", 3, "train.micro_batch_size=5")
    assert parts["losses"].tolist() == pytest.approx(whole["losses"].tolist(), rel=1e-5)
    assert len(parts["logits"]) == len(whole["logits"])


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    encoder = support.make_encoder(folder / "encoder")
    texts = write_texts(folder / "texts.txt", 200, seed=1)
    config = write_config(folder, encoder, texts, data={"validation": str(write_texts(folder / "dev.txt", 40, seed=2)), "shuffle": True},
                          train={"epochs": 8, "batch_size": 8, "eval_every": 25}, optimizer={"learning_rate": 3e-3})
    support.finetune("--config", config)
    return folder, config


def test_it_learns(adapted):
    run = support.Run(adapted[0] / "run")
    evaluations = run.events("eval")
    # Most words are drawn at random: only topics and what a word is can be learned.
    assert evaluations[-1]["loss"] < evaluations[0]["loss"] - 0.1
    assert evaluations[-1]["loss"] < 0.7 * np.log(len(support.vocabulary()))
    for event in evaluations:
        assert event["perplexity"] == pytest.approx(np.exp(event["loss"]))
    assert run.summary()["metrics"]["validation"]["loss"] == pytest.approx(run.summary()["best"]["value"], rel=1e-6)


def test_the_directory_loads_in_transformers_and_trains_a_classifier(adapted):
    folder, _ = adapted
    trained = folder / "run" / "model"
    _, info = AutoModelForMaskedLM.from_pretrained(trained, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert json.loads((trained / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert "AutoModelForMaskedLM" in (trained / "README.md").read_text()
    for command in (("predict", "--input", folder / "texts.txt"), ("eval", "--data", folder / "texts.txt")):
        assert "model.path" in support.finetune(command[0], "--model", trained, *command[1:], code=2).stderr
    data = support.write_csv(folder / "rows.csv", support.make_rows(40, seed=3))
    config = support.write_config(folder / "classify.json", trained, data, output_dir="classified", train={"epochs": 1})
    support.finetune("--config", config)
    AutoModelForSequenceClassification.from_pretrained(folder / "classified" / "model")


def test_a_resume_is_the_same_run(adapted):
    folder, config = adapted
    changes = ["--output-dir", folder / "parts", "--set", "train.epochs=2"]
    support.finetune("--config", config, "--output-dir", folder / "whole", "--set", "train.epochs=2")
    support.finetune("--config", config, *changes, "--set", "train.max_steps=31")
    support.finetune("--config", config, *changes, "--resume", "auto")
    whole, parts = (support.Run(folder / name).summary() for name in ("whole", "parts"))
    assert whole["weights_sha256"] == parts["weights_sha256"] and whole["metrics"] == parts["metrics"]


def test_columns_and_windows(adapted):
    """The text column of a table, labels or not; long texts as windows, each a row of its own."""
    folder, config = adapted
    for name, columns in (("table.csv", ("text", "label")), ("texts.jsonl", ("text", "label"))):
        write = support.write_csv if name.endswith("csv") else support.write_jsonl
        data = write(folder / name, support.make_rows(30, seed=4, longest=30), columns)
        support.finetune("--config", config, "--set", f"data.train={data}", "--set", "data.text=text", "--set", "train.max_steps=2",
                         "--output-dir", folder / "of" / name, "--set", "data.max_length=12", "--set", "data.stride=2")
        split = support.Run(folder / "of" / name).events("start")[0]["data"]["train"]
        assert split["rows"] > split["texts"] == 30


@pytest.mark.parametrize("changes, code, found", [
    ({"model": {"pooling": "mean"}}, 2, "unset model.pooling"),
    ({"task": {"mask_fraction": 0}}, 2, "/task/mask_fraction"),
    ({"task": {"labels": ["a", "b"]}}, 2, "tasks with classes"),
    ({"task": {"type": "sequence_classification", "mask_fraction": None}, "data": {"format": "text"}}, 2, "whose texts have no labels"),
    ({"checkpoint": {"metric": "macro_f1"}}, 2, "perplexity"),
])
def test_what_cannot_be_meant(adapted, tmp_path, changes, code, found):
    config = write_config(tmp_path, adapted[0] / "encoder", adapted[0] / "texts.txt", **changes)
    assert found in support.finetune("--config", config, code=code).stderr


def test_a_family_without_a_known_head(tmp_path):
    encoder = tmp_path / "encoder"
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model("electra", **SMALL, embedding_size=24))
    model.save_pretrained(encoder)
    support.write_tokenizer(encoder)
    config = write_config(tmp_path, encoder, write_texts(tmp_path / "texts.txt", 8, seed=1))
    said = support.finetune("--config", config, code=2).stderr
    assert "electra" in said and "expected one of bert, roberta" in said


def test_a_tokenizer_without_a_mask_token(tmp_path):
    encoder = support.make_encoder(tmp_path / "encoder")
    vocabulary = encoder / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text().replace("[MASK]", "[HIDE]"))
    support.write_json(encoder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "mask_token": None})
    config = write_config(tmp_path, encoder, write_texts(tmp_path / "texts.txt", 8, seed=1))
    assert "mask token" in support.finetune("--config", config, code=4).stderr
