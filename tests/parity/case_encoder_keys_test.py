"""tests/data/cases/18-encoder-key-variants: one encoder under several sets of names."""

import json

import numpy as np
import pytest
import support
import torch
from safetensors.numpy import load_file
from transformers import AutoModel

CASE = support.TEST_DATA / "cases" / "18-encoder-key-variants"
EXPECTED = json.loads((CASE / "expected.json").read_text())


def train(folder, name, **options):
    """One update that changes nothing, so that the exported weights are those that were loaded."""
    data = support.write_csv(folder / "train.csv", support.make_rows(8, seed=1))
    config = support.write_config(folder / "config.json", CASE / name, data, train={"epochs": 1},
                                  optimizer={"learning_rate": 0, "weight_decay": 0}, data={"max_length": 40})
    return support.finetune("--config", config, **options)


def listed(log, words):
    """The names that a line of the log ends with."""
    lines = [line for line in log.splitlines() if words in line]
    return lines[0].split(words)[1] if lines else ""


@pytest.mark.parametrize("name", EXPECTED["same_encoder_for"])
def test_the_same_encoder(tmp_path, name):
    log = train(tmp_path, name).stderr
    model = AutoModel.from_pretrained(tmp_path / "run" / "model", attn_implementation="eager").eval()
    states = []
    for row in EXPECTED["rows"]:
        with torch.no_grad():
            states.append(model(torch.tensor([row["input_ids"]]),
                                token_type_ids=torch.tensor([row["token_type_ids"]])).last_hidden_state[0])
    expected = EXPECTED["last_hidden_state"]
    for found, wanted in ((states[0][0], expected["row0_cls_first8"]), (states[1][0], expected["row1_cls_first8"]),
                          (states[0][3], expected["row0_token3_first8"])):
        assert np.abs(found[:8].numpy() - wanted).max() < EXPECTED["tolerance"]
    assert torch.cat(states).mean().item() == pytest.approx(expected["mean_over_real_tokens"], abs=EXPECTED["tolerance"])
    assert "position_ids" not in log
    new = listed(log, "newly initialised: ")
    assert "classifier.weight" in new and "classifier.bias" in new
    assert ("bert.pooler.dense.weight" in new) == (not name.startswith("b-"))


def test_a_pooler_that_is_there_is_loaded(tmp_path):
    train(tmp_path, "b-no-prefix-with-pooler")
    written = load_file(CASE / "b-no-prefix-with-pooler" / "model.safetensors")
    exported = load_file(tmp_path / "run" / "model" / "model.safetensors")
    for part in ("weight", "bias"):
        assert (exported[f"bert.pooler.dense.{part}"] == written[f"pooler.dense.{part}"]).all()


def test_what_a_masked_language_model_leaves_over_is_named(tmp_path):
    unused = listed(train(tmp_path, "a-mlm-no-pooler").stderr, "of no use here: ")
    assert "cls.predictions" in unused and "bert." not in unused


@pytest.mark.parametrize("name, says", [
    ("e-layer-missing", ["bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.dense.bias", "model.init"]),
    ("f-other-family", ["no tensor in", "cls.predictions", "bert.embeddings", "the same model family"]),
])
def test_refused_before_training(tmp_path, name, says):
    result = train(tmp_path, name, code=4)
    for words in says:
        assert words in result.stderr, result
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_random_parts_may_be_asked_for(tmp_path):
    data = support.write_csv(tmp_path / "train.csv", support.make_rows(8, seed=1))
    config = support.write_config(tmp_path / "config.json", CASE / "e-layer-missing", data, model={"init": "random"},
                                  data={"max_length": 40}, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
