"""Tasks as a user meets them: what they print, what they leave for transformers, and what they refuse."""

import json
import pathlib

import numpy as np
import pytest
import support
import torch
import transformers

TOKENS = {"task": {"type": "token_classification"}}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return support.make_encoder(tmp_path_factory.mktemp("encoder") / "bert")


def write_lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def config_for(folder, encoder, file, **changes):
    base = {"train": {"epochs": 1, "batch_size": 4}}
    return support.write_config(folder / "config.json", encoder, file, **support.merged(base, changes))


def train(folder, encoder, file, **changes):
    result = support.finetune("--config", config_for(folder, encoder, file, **changes))
    return folder / "run" / "model", result


def refuse_training(folder, encoder, file, code, says, **changes):
    result = support.refused(code, "--config", config_for(folder, encoder, file, **changes), says=says)
    assert "device:" not in result.stderr, "it must be refused before the device is used"


WORDS = [{"tokens": ["the", "cat", "\u00a0", "is"], "tags": ["O", "B-A", "O", "O"]},
         {"tokens": ["paris", "is"], "tags": ["B-P", "O"]}] * 4


def test_words(tmp_path, encoder):
    """One answer a word, also for those that the model never sees; the directory is a token classifier."""
    model, result = train(tmp_path, encoder, write_lines(tmp_path / "train.jsonl", *WORDS), **TOKENS)
    assert "4 of 24 words" in result.stderr
    config = json.loads((model / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "B-A", "1": "B-P", "2": "O"} and "problem_type" not in config
    words = [["the", "cat", "\u00a0", "is"], [], ["dog"]]
    data = write_lines(tmp_path / "words.jsonl", *({"tokens": w} for w in words))
    lines = support.finetune("predict", "--model", model, "--device", "cpu", "--input", data,
                             "--logits", tmp_path / "logits.npy").lines()
    assert [line["tokens"] for line in lines] == words
    assert [len(line["tags"]) for line in lines] == [len(w) for w in words]
    assert lines[0]["tags"][2] == "O" and lines[0]["scores"][2] is None
    logits = np.load(tmp_path / "logits.npy")
    assert logits.shape == (5, 3) and np.isnan(logits).any(axis=1).tolist() == [False, False, True, False, False]

    theirs, info = transformers.AutoModelForTokenClassification.from_pretrained(model, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    inputs = transformers.AutoTokenizer.from_pretrained(model)([words[0]], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs.eval()(**inputs).logits[0, [1, 2, 3]]
    assert np.abs(logits[[0, 1, 3]] - expected.numpy()).max() < 1e-5

    plain = support.finetune("predict", "--model", model, "--device", "cpu", stdin="the  cat\n\ndog\n").lines()
    assert [line["tokens"] for line in plain] == [["the", "cat"], [], ["dog"]]
    assert plain[2]["tags"] == lines[2]["tags"]


@pytest.mark.parametrize("positions,unit", [([[0, 1], [0]], "tokens"), ([[0, 5], [1]], "characters")])
def test_places(tmp_path, encoder, positions, unit):
    rows = [{"text": "cat dog", "at": positions[0], "label": ["a", "b"]},
            {"text": "paris", "at": positions[1], "label": ["b"]}] * 3
    model, _ = train(tmp_path, encoder, write_lines(tmp_path / "train.jsonl", *rows), **TOKENS,
                     data={"positions": "at", "position_unit": unit})
    lines = support.finetune("predict", "--model", model, "--device", "cpu", "--input", tmp_path / "train.jsonl").lines()
    assert lines[0]["text"] == "cat dog" and lines[0]["positions"] == positions[0]
    assert len(lines[0]["labels"]) == 2 and len(lines[1]["scores"]) == 1


@pytest.mark.parametrize("position,unit,says", [(4, "tokens", "position 4 is outside the row, which has 4 tokens"),
                                                (7, "characters", "position 7 is outside the row, which has 7")])
def test_places_out_of_range(tmp_path, encoder, position, unit, says):
    rows = [{"text": "cat dog", "at": [1], "label": ["a"]}, {"text": "cat dog", "at": [position], "label": ["b"]}]
    refuse_training(tmp_path, encoder, write_lines(tmp_path / "bad.jsonl", *rows), 3, ["bad.jsonl:2", says], **TOKENS,
                    data={"positions": "at", "position_unit": unit})


def test_fields_stay_whole(tmp_path, encoder):
    """The text gives way to the fields; a field for which there is no room has no answer."""
    rows = [{"text": "the cat " * 30, "columns": ["dog " * 20, "paris " * 20, "bird " * 30], "label": ["a", "b", "a"]}] * 4
    model, result = train(tmp_path, encoder, write_lines(tmp_path / "train.jsonl", *rows), **TOKENS,
                          data={"fields": "columns"})
    assert "4 of 12 words, fields or positions have no token" in result.stderr
    lines = support.finetune("predict", "--model", model, "--device", "cpu", "--input", tmp_path / "train.jsonl").lines()
    assert lines[0]["fields"] == rows[0]["columns"]
    assert lines[0]["labels"][2] is None and lines[0]["scores"][2] is None and None not in lines[0]["labels"][:2]
    support.refused(3, "predict", "--model", model, "--device", "cpu", stdin="cat\n", says=["fields", "JSONL"])


def test_several_labels(tmp_path, encoder):
    rows = support.write_csv(tmp_path / "train.csv", [("cat", "x,y"), ("dog", ""), ("paris", "y")] * 4)
    model, _ = train(tmp_path, encoder, rows, task={"type": "multi_label_classification"})
    config = json.loads((model / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification" and config["id2label"] == {"0": "x", "1": "y"}
    answer = support.finetune("predict", "--model", model, "--device", "cpu", stdin="cat\n").lines()[0]
    assert answer["labels"] == [label for label, score in answer["scores"].items() if score >= 0.5]
    theirs = transformers.pipeline("text-classification", model=str(model), top_k=None)(["cat"])[0]
    assert {a["label"]: a["score"] for a in theirs} == pytest.approx(answer["scores"], abs=1e-5)


def test_numbers(tmp_path, encoder):
    rows = support.write_csv(tmp_path / "train.csv", [("cat", 0.5), ("dog", 1), ("paris", -2)] * 4)
    model, _ = train(tmp_path, encoder, rows, task={"type": "regression"})
    config = json.loads((model / "config.json").read_text())
    assert config["problem_type"] == "regression" and len(config["id2label"]) == 1
    answer = support.finetune("predict", "--model", model, "--device", "cpu", stdin="cat\n").lines()[0]
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(model).eval()
    inputs = transformers.AutoTokenizer.from_pretrained(model)("cat", return_tensors="pt")
    with torch.no_grad():
        assert answer == {"text": "cat", "value": pytest.approx(theirs(**inputs).logits.item(), abs=1e-5)}


def test_a_directory_that_is_not_ours(tmp_path, encoder):
    """The task is told from config.json."""
    model, _ = train(tmp_path, encoder, write_lines(tmp_path / "train.jsonl", *WORDS), **TOKENS)
    before = support.finetune("predict", "--model", model, "--device", "cpu", stdin="the cat\n").stdout
    (pathlib.Path(model) / "finetune.json").unlink()
    assert support.finetune("predict", "--model", model, "--device", "cpu", stdin="the cat\n").stdout == before


def test_kept_rows_have_their_targets(tmp_path, encoder):
    """The second run takes encoded rows, those held out too, from the cache, and learns the same."""
    data = write_lines(tmp_path / "train.jsonl", *WORDS)
    config = config_for(tmp_path, encoder, data, **TOKENS, data={"cache_dir": str(tmp_path / "cache"), "validation_fraction": 0.25})
    seen = []
    for number in range(2):
        result = support.finetune("--config", config, "--output-dir", tmp_path / f"run{number}")
        assert ("encoded rows are taken from" in result.stderr) == (number == 1)
        summary = support.Run(tmp_path / f"run{number}").summary()
        seen.append((summary["weights_sha256"], summary["metrics"]))
    assert seen[0] == seen[1]
    held_out = sum(map(sum, seen[0][1]["validation"]["confusion"]))
    assert 4 <= held_out <= 6, "two rows of two or three words that have a token"
    other = support.finetune("--config", config, "--output-dir", tmp_path / "other", "--set", "task.ignore_index=0")
    assert "encoded rows are taken from" not in other.stderr, "the ignored label is part of what is kept"


def test_iob1_is_said(tmp_path, encoder):
    file = support.TEST_DATA / "cases" / "15-conll-iob1" / "iob1.txt"
    model, result = train(tmp_path, encoder, file, **TOKENS, data={"format": "conll"})
    assert "the tags are in IOB1; 5 entities" in result.stderr
    labels = list(json.loads((model / "config.json").read_text())["id2label"].values())
    assert labels == ["B-LOC", "B-ORG", "B-PER", "I-ORG", "I-PER", "O"]


def test_unknown_tag_at_evaluation(tmp_path, encoder):
    model, _ = train(tmp_path, encoder, write_lines(tmp_path / "train.jsonl", *WORDS), **TOKENS)
    bad = write_lines(tmp_path / "bad.jsonl", WORDS[0], {"tokens": ["cat"], "tags": ["B-X"]})
    support.refused(3, "eval", "--model", model, "--device", "cpu", "--data", bad,
                    says=["bad.jsonl:2", "label 'B-X' is not known", "'B-A', 'B-P', 'O'"])


def test_malformed_conll_line(tmp_path, encoder):
    (tmp_path / "bad.conll").write_text("cat O\ndog\n")
    refuse_training(tmp_path, encoder, tmp_path / "bad.conll", 3, ["bad.conll:2", "'dog' has 1 columns, expected 2"],
                    **TOKENS)


@pytest.mark.parametrize("label,says", [("x,,y", "an empty label between separators"),
                                        ("x, y", "label ' y' is not known")])
def test_labels_that_cannot_be_parsed(tmp_path, encoder, label, says):
    data = support.write_csv(tmp_path / "bad.csv", [("cat", "x"), ("dog", label)])
    refuse_training(tmp_path, encoder, data, 3, ["bad.csv:3", says],
                    task={"type": "multi_label_classification", "labels": ["x", "y"]})


def test_a_label_that_is_no_number(tmp_path, encoder):
    data = support.write_csv(tmp_path / "bad.csv", [("cat", "1.5"), ("dog", "much")])
    refuse_training(tmp_path, encoder, data, 3, ["bad.csv:3", "label 'much' is no finite number"],
                    task={"type": "regression"})


@pytest.mark.parametrize("task,says", [
    ({"class_weights": [1, 2]}, "found 2 weights for 3 labels"),
    ({"class_weights": {"cats": 2}}, "a weight for 'cats', which is none of the labels"),
    ({"labels": ["a", "b"], "class_weights": [1, 2, 3]}, "found 3 weights for the 2 task.labels"),
    ({"class_weights": [1, -1, 1]}, "/task/class_weights/1"),
    ({"threshold": 0.3}, "means something for multi_label_classification only"),
    ({"type": "regression", "label_smoothing": 0.1}, "/task/label_smoothing"),
    ({"loss": "focal", "label_smoothing": 0.1}, "the focal loss has no smoothed form"),
], ids=str)
def test_weights_and_settings_that_do_not_fit(tmp_path, encoder, task, says):
    data = support.write_csv(tmp_path / "train.csv", support.make_rows(12, seed=1))
    refuse_training(tmp_path, encoder, data, 2, says, task=task)


@pytest.mark.parametrize("changes,says", [
    ({"data": {"fields": "columns"}}, "for token_classification only"),
    ({**TOKENS, "data": {"fields": "a", "positions": "b"}}, "exclude each other"),
    ({**TOKENS, "data": {"text_pair": "b"}}, "have one text"),
    ({**TOKENS, "data": {"format": "csv"}}, "lists of items come from jsonl files"),
    ({"data": {"format": "conll"}}, "conll files hold words with tags"),
    ({"checkpoint": {"metric": "pearson"}}, "does not measure"),
], ids=str)
def test_keys_that_exclude_each_other(tmp_path, encoder, changes, says):
    refuse_training(tmp_path, encoder, tmp_path / "train.jsonl", 2, says, **changes)
