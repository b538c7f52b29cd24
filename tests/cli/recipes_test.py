"""Recipes: frozen parameters and early stopping, from the config to what a run leaves."""

import json

import pytest
import support
from safetensors.numpy import load_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(60, seed=1))
    support.write_csv(folder / "dev.csv", support.make_rows(20, seed=2))
    return folder


def config_for(folder, output_dir, **changes):
    base = {"output_dir": output_dir, "data": {"validation": "dev.csv"}, "train": {"epochs": 2, "batch_size": 8},
            "optimizer": {"learning_rate": 1e-3}}
    return support.write_config(folder / f"{output_dir}.json", "encoder", "train.csv", **support.merged(base, changes))


FROZEN = ["[.]embeddings[.]", "[.]layer[.]0[.]", "[.]query[.]"]


def is_frozen(name):
    return ".embeddings." in name or ".layer.0." in name or ".query." in name


def test_frozen_parameters_keep_their_values(folder):
    result = support.finetune("--config", config_for(folder, "frozen", model={"freeze": FROZEN}))
    assert "of them frozen" in result.stderr
    run = support.Run(folder / "frozen")
    before = load_file(folder / "encoder" / "model.safetensors")
    after = load_file(run.path / "model" / "model.safetensors")
    state = load_file(run.path / "checkpoints" / "latest" / "optimizer.safetensors")
    seen = set()
    for name, value in after.items():
        if name not in before:
            continue
        assert (value == before[name]).all() == is_frozen(name), name
        assert (f"exp_avg/{name}" in state) != is_frozen(name), name
        seen.add(is_frozen(name))
    assert seen == {True, False}


def test_a_resume_with_frozen_parameters_and_rates_by_layer_is_the_same_run(folder):
    changes = {"model": {"freeze": FROZEN}, "checkpoint": {"save_every": 5}, "schedule": {"type": "constant", "warmup": 0},
               "optimizer": {"layerwise_lr_decay": 0.7, "groups": [{"patterns": "^classifier", "learning_rate": 3e-3}]}}
    support.finetune("--config", config_for(folder, "whole", **changes))
    config = config_for(folder, "parts", **changes)
    support.finetune("--config", config, "--set", "train.max_steps=5")
    support.finetune("--config", config, "--resume", "auto")
    whole, parts = (support.Run(folder / name).summary()["weights_sha256"] for name in ("whole", "parts"))
    assert whole == parts
    support.finetune("--config", config_for(folder, "even", **changes), "--set", "optimizer.layerwise_lr_decay=1")
    assert support.Run(folder / "even").summary()["weights_sha256"] != whole


@pytest.mark.parametrize("pattern, found, name", [
    ("[.]layers[.]", "is found in no parameter's name", "bert.embeddings.word_embeddings.weight"),
    (".", "nothing would learn", "classifier.bias")])
def test_patterns_that_cannot_be_meant(folder, pattern, found, name):
    result = support.finetune("--config", config_for(folder, "refused", model={"freeze": pattern}), code=2)
    assert "model.freeze" in result.stderr and found in result.stderr and name in result.stderr
    assert not (folder / "refused" / "model").exists()


STOPPING = {"train": {"epochs": 30, "eval_every": 5, "early_stopping": {"patience": 2, "min_delta": 1e6}},
            "schedule": {"type": "constant", "warmup": 0}, "checkpoint": {"save_every": 5}}


def test_training_ends_where_the_metric_gains_no_more(folder):
    """The first evaluation is the best so far; no later one can gain a million."""
    config = config_for(folder, "stopped", **STOPPING)
    result = support.finetune("--config", config)
    run = support.Run(folder / "stopped")
    assert "ends early: loss has not gained in 2 evaluations" in result.stderr
    assert run.summary()["status"] == "completed" and run.summary()["stopped_early"] and run.summary()["steps"] == 15
    assert [event["step"] for event in run.events("eval")] == [5, 10, 15]
    # It is finished, unless the config asks for more patience.
    assert "finished" in support.finetune("--config", config, "--resume", "auto").stderr
    support.finetune("--config", config, "--resume", "auto", "--set", 'train.early_stopping={"patience": 4, "min_delta": 1e6}')
    assert support.Run(folder / "stopped").summary()["steps"] == 25


def test_a_stop_in_between_forgets_no_patience(folder):
    config = config_for(folder, "patient", **STOPPING)
    support.finetune("--config", config, "--set", "train.max_steps=10")
    support.finetune("--config", config, "--resume", "auto")
    summaries = [json.loads((folder / name / "summary.json").read_text()) for name in ("stopped", "patient")]
    assert summaries[1]["steps"] == 15 and summaries[1]["stopped_early"]


def test_a_metric_that_gains_goes_on(folder):
    changes = support.merged(STOPPING, {"train": {"epochs": 2, "early_stopping": {"patience": 1, "min_delta": 0}}})
    support.finetune("--config", config_for(folder, "gaining", **changes))
    summary = support.Run(folder / "gaining").summary()
    losses = [event["loss"] for event in support.Run(folder / "gaining").events("eval")]
    ended = next((i for i in range(1, len(losses)) if losses[i] >= min(losses[:i])), None)
    assert summary["stopped_early"] == (ended is not None) and (ended is None or len(losses) == ended + 1)
