"""A trained model's directory in transformers, and one that transformers wrote in the program."""

import json

import numpy as np
import pytest
import support
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

TEXTS = ["the cat sat", "a red house in london", "Blue!", "", "it was not very yellow", "paris - street, river"]
PAIRS = [("the cat", "a red house"), ("paris", ""), ("", "blue"), ("it was very not", "dog dog dog")]


@pytest.fixture(scope="module", params=["single", "pair"])
def trained(request, tmp_path_factory):
    """(model directory, rows to answer, their columns) of a run on rows of one text, or of two."""
    folder = tmp_path_factory.mktemp(request.param)
    encoder = support.make_encoder(folder / "encoder")
    rows = support.make_rows(48, seed=2)
    if request.param == "pair":
        rows = [(text, text[::-1], topic) for text, topic in rows]
        columns, answered = ("text", "text_pair", "label"), PAIRS
    else:
        columns, answered = ("text", "label"), [(text,) for text in TEXTS]
    data = support.write_csv(folder / "train.csv", rows, columns)
    pair = {"text_pair": "text_pair"} if request.param == "pair" else {}
    config = support.write_config(folder / "config.json", encoder, data, data=pair, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    return folder / "run" / "model", answered, columns[:-1]


@pytest.fixture(scope="module")
def answers(trained, tmp_path_factory):
    """What the program answers, and its logits."""
    model, rows, columns = trained
    folder = tmp_path_factory.mktemp("answers")
    data = support.write_csv(folder / "rows.csv", rows, columns)
    result = support.finetune("predict", "--model", model, "--device", "cpu", "--input", data, "--logits",
                              folder / "logits.npy")
    return result.lines(), np.load(folder / "logits.npy")


def encoded(directory, rows):
    return AutoTokenizer.from_pretrained(directory)([list(row) if len(row) > 1 else row[0] for row in rows],
                                                    return_tensors="pt", padding=True)


def test_every_weight_is_there_and_no_other(trained):
    _, info = AutoModelForSequenceClassification.from_pretrained(trained[0], output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info[key], (key, info[key])


def test_same_logits(trained, answers):
    directory, rows, _ = trained
    model = AutoModelForSequenceClassification.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = model(**encoded(directory, rows)).logits.numpy()
    lines, logits = answers
    assert logits.dtype == np.float32 and logits.shape == expected.shape
    assert np.abs(logits - expected).max() < 1e-5
    names = [model.config.id2label[number] for number in range(model.config.num_labels)]
    assert names == sorted(support.TOPICS)
    assert [line["label"] for line in lines] == [names[number] for number in expected.argmax(-1)]


def test_same_answers_as_the_pipeline(trained, answers):
    directory, rows, columns = trained
    classify = pipeline("text-classification", model=str(directory), device="cpu", top_k=None)
    inputs = [dict(zip(columns, row)) for row in rows]
    for line, expected in zip(answers[0], [classify(row)[0] if isinstance(classify(row)[0], list) else classify(row)
                                           for row in inputs]):
        # Called for one row, transformers drops a second text that is empty; called for a batch, as in training, it keeps its
        # [SEP]. We always keep it, so the pipeline has no answer to compare such a row with.
        if line.get("text_pair") == "":
            continue
        assert line["label"] == expected[0]["label"]
        assert line["score"] == pytest.approx(expected[0]["score"], abs=1e-5)
        assert line["scores"] == pytest.approx({e["label"]: e["score"] for e in expected}, abs=1e-5)


def test_config_names_labels_both_ways(trained):
    config = json.loads((trained[0] / "config.json").read_text())
    assert config["id2label"] == {str(n): name for n, name in enumerate(sorted(support.TOPICS))}
    assert config["label2id"] == {name: n for n, name in enumerate(sorted(support.TOPICS))}
    assert config["architectures"] == ["BertForSequenceClassification"]


def test_a_directory_that_transformers_saved(tmp_path, trained, answers):
    """Through transformers and back: the same answers, without the program's own settings file."""
    directory, rows, columns = trained
    AutoModelForSequenceClassification.from_pretrained(directory).save_pretrained(tmp_path / "saved")
    AutoTokenizer.from_pretrained(directory).save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved" / "finetune.json").exists()
    data = support.write_csv(tmp_path / "rows.csv", rows, columns)
    flags = ["--text-pair", "text_pair"] if len(columns) == 2 else []
    support.finetune("predict", "--model", tmp_path / "saved", "--device", "cpu", "--input", data, "--output",
                     tmp_path / "answers.jsonl", "--logits", tmp_path / "logits.npy", *flags)
    assert support.read_jsonl(tmp_path / "answers.jsonl") == answers[0]
    assert (np.load(tmp_path / "logits.npy") == answers[1]).all()
