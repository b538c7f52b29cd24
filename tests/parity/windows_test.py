"""Sliding windows against transformers: ids with `return_overflowing_tokens`, one answer a text, and texts that stay together."""

import json
import random

import numpy as np
import pytest
import reference
import subword_models
import support
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, RobertaConfig, RobertaForSequenceClassification

MAX_LENGTH = 14


def long_texts(count, seed):
    """From nothing to several windows, and the borders between them."""
    draw = random.Random(seed)
    words = [*support.FILLERS, *(word for words in support.TOPICS.values() for word in words)]
    lengths = [0, 1, 11, 12, 13, 14, 20, 24, 60, *(draw.randint(0, 70) for _ in range(count))][:count]
    return [" ".join(draw.choices(words, k=length)) for length in lengths]


def bert(folder):
    return support.make_encoder(folder / "bert")


def roberta(folder):
    directory = subword_models.OWN["roberta"](folder)
    config = RobertaConfig(vocab_size=len(AutoTokenizer.from_pretrained(directory)), hidden_size=16, num_hidden_layers=1,
                           num_attention_heads=2, intermediate_size=16, max_position_embeddings=64, type_vocab_size=1, num_labels=2)
    RobertaForSequenceClassification(config).save_pretrained(directory)
    return directory


def seen_rows(folder, directory, rows, columns, **data):
    write = support.write_csv(folder / "rows.csv", [(*row, "ab"[n % 2]) for n, row in enumerate(rows)], (*columns, "label"))
    config = support.write_config(folder / "config.json", directory, write, task={"labels": ["a", "b"]},
                                  data={"shuffle": False, "max_length": MAX_LENGTH, **data}, train={"batch_size": 4096})
    return [ids.tolist() for ids, _ in reference.rows_of(reference.probe(config, folder / "seen.safetensors", 1))]


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize("stride", [0, 3, 11])
def test_windows_of_texts(tmp_path, make, stride):
    directory, texts = make(tmp_path), long_texts(40, seed=5)
    expected = AutoTokenizer.from_pretrained(directory)(texts, truncation=True, max_length=MAX_LENGTH, stride=stride,
                                                        return_overflowing_tokens=True)["input_ids"]
    assert len(expected) > 2 * len(texts)
    assert seen_rows(tmp_path, directory, [(text,) for text in texts], ["text"], stride=stride) == expected


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize("truncation", ["only_first", "only_second"])
def test_windows_of_pairs(tmp_path, make, truncation):
    directory = make(tmp_path)
    long, short = long_texts(30, seed=6), [" ".join(["the"] * (n % 4)) for n in range(30)]
    pairs = list(zip(long, short) if truncation == "only_first" else zip(short, long))
    expected = AutoTokenizer.from_pretrained(directory)(*map(list, zip(*pairs)), truncation=truncation, max_length=MAX_LENGTH,
                                                        stride=2, return_overflowing_tokens=True)["input_ids"]
    assert len(expected) > 2 * len(pairs)
    assert seen_rows(tmp_path, directory, pairs, ["text", "other"], text_pair="other", truncation=truncation, stride=2) == expected


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on texts of several windows, a part of which is held out."""
    folder = tmp_path_factory.mktemp("windows")
    draw = random.Random(3)
    rows = []
    for text in long_texts(60, seed=4):
        topic = draw.choice(["animals", "places"])
        rows.append((f"{text} {draw.choice(support.TOPICS[topic])} {text}".strip(), topic))
    data = support.write_csv(folder / "train.csv", rows)
    config = support.write_config(folder / "config.json", support.make_encoder(folder / "encoder"), data,
                                  data={"max_length": MAX_LENGTH, "stride": 4, "validation_fraction": 0.3},
                                  train={"epochs": 2, "batch_size": 8, "eval_every": 1}, optimizer={"learning_rate": 1e-3},
                                  schedule={"type": "constant", "warmup": 0})
    support.finetune("--config", config)
    return folder, rows, config


def test_a_text_has_one_answer_the_mean_of_its_windows(run):
    folder, rows, _ = run
    model_directory = folder / "run" / "model"
    support.finetune("predict", "--model", model_directory, "--device", "cpu", "--input", folder / "train.csv",
                     "--output", folder / "answers.jsonl", "--logits", folder / "logits.npy")
    answers = support.read_jsonl(folder / "answers.jsonl")
    assert [answer["text"] for answer in answers] == [text for text, _ in rows]
    tokenizer = AutoTokenizer.from_pretrained(model_directory)
    model = AutoModelForSequenceClassification.from_pretrained(model_directory).eval()
    encoded = tokenizer([text for text, _ in rows], truncation=True, max_length=MAX_LENGTH, stride=4, padding=True,
                        return_overflowing_tokens=True, return_tensors="pt")
    owner = encoded.pop("overflow_to_sample_mapping")
    with torch.no_grad():
        logits = model(**encoded).logits
    expected = torch.stack([logits[owner == text].mean(0) for text in range(len(rows))])
    assert (owner.bincount() > 3).any()
    assert np.abs(np.load(folder / "logits.npy") - expected.numpy()).max() < 1e-5
    metrics = json.loads(support.finetune("eval", "--model", model_directory, "--device", "cpu", "--data", folder / "train.csv").stdout)
    names = [model.config.id2label[int(row.argmax())] for row in expected]
    assert metrics["accuracy"] == pytest.approx(np.mean([name == topic for name, (_, topic) in zip(names, rows)]))
    gold = torch.tensor([model.config.label2id[topic] for _, topic in rows])
    assert metrics["loss"] == pytest.approx(torch.nn.functional.cross_entropy(expected, gold).item(), abs=1e-5)


def test_windows_of_a_text_stay_together(run):
    folder, rows, config = run
    started = support.Run(folder / "run").events("start")[0]["data"]
    texts = {name: split.get("texts", split["rows"]) for name, split in started.items()}
    assert texts == {"train": 42, "validation": 18} and all(split["rows"] > split["texts"] for split in started.values())
    lengths = {name: split["tokens"] for name, split in started.items()}
    # What is held out does not depend on windows: without them the same texts are, cut off.
    support.finetune("--config", config, "--set", "data.stride=null", "--output-dir", folder / "cut", "--set", "train.max_steps=1")
    cut = support.Run(folder / "cut").events("start")[0]["data"]
    assert {name: split["rows"] for name, split in cut.items()} == texts
    assert all(split["tokens"] < lengths[name] for name, split in cut.items())


def test_a_resume_with_windows_is_the_same_run(run):
    folder, _, config = run
    support.finetune("--config", config, "--output-dir", folder / "parts", "--set", "train.max_steps=7")
    support.finetune("--config", config, "--output-dir", folder / "parts", "--resume", "auto")
    assert support.Run(folder / "parts").summary()["weights_sha256"] == support.Run(folder / "run").summary()["weights_sha256"]
    assert support.Run(folder / "parts").summary()["metrics"] == support.Run(folder / "run").summary()["metrics"]


@pytest.mark.parametrize("changes, code, found", [
    ({"data": {"stride": 12}}, 2, "fewer than 12"),
    ({"data": {"stride": 40}}, 2, "data.max_length 14"),
    ({"data": {"stride": 2, "truncation": "none"}}, 2, "truncation none"),
    ({"data": {"stride": 2, "text_pair": "text"}}, 2, "only_second"),
    ({"data": {"stride": 2, "tokens": "text"}, "task": {"type": "token_classification"}}, 2, "have no windows"),
    ({"data": {"stride": 8, "text_pair": "pair", "truncation": "only_first"}}, 3, "rows.csv:2"),
])
def test_windows_that_cannot_be(run, tmp_path, changes, code, found):
    support.write_csv(tmp_path / "rows.csv", [("the " * 30, "a b c d", "x"), ("an " * 30, "a", "y")], ("text", "pair", "label"))
    config = support.write_config(tmp_path / "config.json", run[0] / "encoder", tmp_path / "rows.csv",
                                  **support.merged({"data": {"max_length": MAX_LENGTH}}, changes))
    assert found in support.finetune("--config", config, code=code).stderr
