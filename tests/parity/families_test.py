"""Every family's network against transformers: logits, loss, gradients, ten AdamW updates; and its trained directory."""

import json

import families
import numpy as np
import pytest
import support
import tolerances
import torch
from transformers import AutoModelForSequenceClassification

CASES = [(variant, task) for variant in families.VARIANTS for task in families.MODEL_OF_TASK]
# Attention that is not the fused kernel's.
WITH_SCORE_MATRICES = ["mpnet", "deberta-v3", "deberta-v2, own projections", "modernbert"]


@pytest.mark.parametrize("variant, task", CASES)
def test_network(tmp_path, variant, task):
    found = families.differences(tmp_path, variant, task)
    assert set(found) == set(tolerances.MEASURES)
    assert {measure: value for measure, value in found.items() if not value < tolerances.MEASURES[measure]} == {}


def by_micro_batches(folder, variant, **options):
    directory = folder / "model"
    if not directory.exists():
        families.save_model(directory, variant, "sequence")
    return families.probe(folder, directory, families.make_rows(), "sequence", steps=3, **families.DROPOUT, **options)


@pytest.mark.parametrize("variant", WITH_SCORE_MATRICES)
def test_dropout_does_not_depend_on_how_an_update_is_computed(tmp_path, variant):
    whole = by_micro_batches(tmp_path, variant)
    gradients = [name for name in whole if name.startswith("grad/")]
    largest = max(families.largest(whole[name]) for name in gradients)
    for options in ({"micro_rows": 1}, {"micro_rows": 4}, {"threads": 2}, {"activation_checkpointing": True}):
        other = by_micro_batches(tmp_path, variant, **options)
        assert other["losses"].tolist() == pytest.approx(whole["losses"].tolist(), rel=1e-5), options
        assert families.largest(other["logits"] - whole["logits"]) < 1e-5, options
        for name in gradients:
            assert families.largest(other[name] - whole[name]) / largest < 1e-5, (name, options)


@pytest.mark.parametrize("variant", WITH_SCORE_MATRICES)
def test_dropout_takes_part_in_attention(tmp_path, variant):
    directory = families.save_model(tmp_path / "model", variant, "sequence")
    rows = families.make_rows()
    without = families.probe(tmp_path, directory, rows, "sequence", steps=1)
    dropped = families.probe(tmp_path, directory, rows, "sequence", steps=1, attention_dropout=0.5)
    other_seed = families.probe(tmp_path, directory, rows, "sequence", steps=1, attention_dropout=0.5, seed=43)
    assert families.largest(dropped["logits"] - without["logits"]) > 1e-3
    assert families.largest(dropped["logits"] - other_seed["logits"]) > 1e-3


@pytest.mark.parametrize("variant", ["bert", "roberta", "albert", "mpnet", "deberta-v3", "modernbert"])
def test_bf16_is_close(tmp_path, variant):
    directory = families.save_model(tmp_path / "model", variant, "sequence")
    rows = families.make_rows()
    exact = families.probe(tmp_path, directory, rows, "sequence", steps=10)
    rounded = families.probe(tmp_path, directory, rows, "sequence", steps=10, precision="bf16")
    assert 0 < families.largest(exact["logits"] - rounded["logits"]) < 0.05
    assert rounded["losses"].tolist() == pytest.approx(exact["losses"].tolist(), abs=0.05)


@pytest.mark.parametrize("variant", ["roberta", "distilbert", "electra", "albert", "mpnet", "deberta-v3", "modernbert"])
def test_a_trained_directory_loads_in_transformers(tmp_path, variant):
    """Trained through the program, loaded without a missing or unexpected weight, and with our logits."""
    encoder = families.save_model(tmp_path / "encoder", variant, "sequence")
    support.write_tokenizer(encoder)
    rows = [(text, topic) for text, topic in support.make_rows(24, seed=2, longest=40)]
    data = support.write_csv(tmp_path / "train.csv", rows)
    config = support.write_config(tmp_path / "config.json", encoder, data, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    trained = tmp_path / "run" / "model"
    support.finetune("predict", "--model", trained, "--device", "cpu", "--input", data, "--output", tmp_path / "answers",
                     "--logits", tmp_path / "logits.npy")
    model, info = AutoModelForSequenceClassification.from_pretrained(trained, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info[key], (key, info[key])
    assert json.loads((trained / "config.json").read_text())["architectures"] == [type(model).__name__]
    texts = "".join(text + "\n" for text, _ in rows)
    tokens = support.finetune("tokenize", "--model", trained, stdin=texts).lines()
    ids = [torch.tensor(row["input_ids"]) for row in tokens]
    with torch.no_grad():
        expected = families.expected_logits(model.eval(), families.Rows(ids, [len(row) for row in ids], {}), "sequence")
    assert np.abs(np.load(tmp_path / "logits.npy") - expected.numpy()).max() < tolerances.MEASURES["logits"]
