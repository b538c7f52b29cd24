"""tests/data/cases/17-roberta-positions-and-types: positions begin above the padding token, and there is one token type."""

import json

import numpy as np
import pytest
import support

CASE = support.TEST_DATA / "cases" / "17-roberta-positions-and-types"
EXPECTED = json.loads((CASE / "expected.json").read_text())
MODELS = EXPECTED["models"]


def logits_of(folder, name, rows, columns=("text",)):
    data = support.write_csv(folder / "rows.csv", rows, columns)
    flags = ["--text-pair", "pair"] if "pair" in columns else []
    result = support.finetune("predict", "--model", CASE / name, "--device", "cpu", "--input", data, "--output",
                              folder / "answers", "--logits", folder / "logits.npy", *flags)
    return np.load(folder / "logits.npy"), result.stderr


@pytest.mark.parametrize("name", MODELS)
def test_logits(tmp_path, name):
    for columns in (("text",), ("text", "pair")):
        rows = [row for row in MODELS[name]["rows"] if ("pair" in row) == ("pair" in columns)]
        assert rows
        logits, _ = logits_of(tmp_path, name, [tuple(row[column] for column in columns) for row in rows], columns)
        assert np.abs(logits - np.array([row["logits"] for row in rows])).max() < EXPECTED["tolerance"]


@pytest.mark.parametrize("name", MODELS)
def test_long_rows_are_cut_to_the_usable_length(tmp_path, name):
    logits, said = logits_of(tmp_path, name, [("the cat " * 20,)])
    assert np.abs(logits[0] - MODELS[name]["too_long"]["logits"]).max() < EXPECTED["tolerance"]
    assert f"clamped to the model's {MODELS[name]['usable_tokens']} positions" in said


@pytest.mark.parametrize("name", MODELS)
def test_full_rows_and_pairs_train(tmp_path, name):
    rows = [("the cat " * 20, "bob lives in paris", label) for label in ("bad", "fine", "good")] * 3
    data = support.write_csv(tmp_path / "train.csv", rows, ("text", "text_pair", "label"))
    config = support.write_config(tmp_path / "config.json", CASE / name, data, data={"text_pair": "text_pair"},
                                  train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
