"""tests/data/cases/22-hidden-act: activation and LayerNorm epsilon are taken from config.json."""

import json
import shutil

import numpy as np
import pytest
import support

CASE = support.TEST_DATA / "cases" / "22-hidden-act"
EXPECTED = json.loads((CASE / "expected.json").read_text())


def model_with(directory, changes):
    shutil.copytree(CASE, directory)
    config = json.loads((CASE / "config.json").read_text())
    for key, value in changes.items():
        if value is None:
            config.pop(key)
        else:
            config[key] = value
    support.write_json(directory / "config.json", config)
    return directory


def logits_of(folder, changes):
    """Logits of the case's rows; a row without a second text and one with are encoded apart."""
    model = model_with(folder / "model", changes)
    logits = [None] * len(EXPECTED["rows"])
    singles = [n for n, row in enumerate(EXPECTED["rows"]) if "pair" not in row]
    pairs = [n for n, row in enumerate(EXPECTED["rows"]) if "pair" in row]
    for numbers, columns in ((singles, ("text",)), (pairs, ("text", "pair"))):
        rows = [tuple(EXPECTED["rows"][n][column] for column in columns) for n in numbers]
        data = support.write_csv(folder / "rows.csv", rows, columns)
        flags = ["--text-pair", "pair"] if "pair" in columns else []
        support.finetune("predict", "--model", model, "--device", "cpu", "--input", data, "--output", folder / "answers",
                         "--logits", folder / "logits.npy", *flags)
        for n, values in zip(numbers, np.load(folder / "logits.npy")):
            logits[n] = values
    return np.array(logits)


def changes_for(name):
    activation, _, epsilon = name.partition(", layer_norm_eps ")
    return {"hidden_act": activation, **({"layer_norm_eps": float(epsilon)} if epsilon else {})}


@pytest.mark.parametrize("name", EXPECTED["logits"])
def test_logits(tmp_path, name):
    logits = logits_of(tmp_path, changes_for(name))
    assert np.abs(logits - EXPECTED["logits"][name]).max() < EXPECTED["tolerance"]


def test_a_missing_activation_means_exact_gelu(tmp_path):
    logits = logits_of(tmp_path, {"hidden_act": None})
    assert np.abs(logits - EXPECTED["logits"]["gelu"]).max() < EXPECTED["tolerance"]


REFUSED = {
    "unknown activation": ({"hidden_act": "geluu"}, ["hidden_act 'geluu'", "did you mean 'gelu'?"]),
    "relative positions": (EXPECTED["refuse"]["relative-positions"], ["position_embedding_type 'relative_key'"]),
    "decoder": (EXPECTED["refuse"]["cross-attention"], ["is_decoder", "finetune trains encoders"]),
    "heads do not divide": (EXPECTED["refuse"]["heads-do-not-divide"], ["num_attention_heads 5", "hidden_size 32"]),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused_before_training(tmp_path, reason):
    changes, words = REFUSED[reason]
    model = model_with(tmp_path / "model", changes)
    data = support.write_csv(tmp_path / "train.csv", support.make_rows(8, seed=1))
    config = support.write_config(tmp_path / "config.json", model, data)
    support.refused(4, "--config", config, says=["config.json", *words])
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
