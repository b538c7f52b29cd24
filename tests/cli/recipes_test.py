"""Recipes: frozen parameters and early stopping, from the config to what a run leaves."""

import json

import numpy as np
import pytest
import support
import torch
from safetensors.numpy import load_file
from transformers import AutoModel, AutoTokenizer


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


EVERY_STEP = {"checkpoint": {"save_every": 1, "keep_last": 100, "keep_best": False}, "schedule": {"type": "constant", "warmup": 0},
              "train": {"epochs": 2, "eval_every": 1}}


def checkpoints_of(run, name):
    return [load_file(folder / name) for folder in sorted((run.path / "checkpoints").glob("step-*"))]


def test_the_average_of_the_weights_is_what_is_evaluated_and_kept(folder):
    changes = support.merged(EVERY_STEP, {"model": {"ema": {"decay": 0.8}}})
    support.finetune("--config", config_for(folder, "averaged", **changes))
    run = support.Run(folder / "averaged")
    weights = checkpoints_of(run, "model.safetensors")
    assert len(weights) == run.summary()["steps"] > 10
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.8)
    expected = {name: torch.from_numpy(value.copy()) for name, value in weights[0].items()}
    for state in weights[1:]:
        average(list(expected.values()), [torch.from_numpy(state[name].copy()) for name in expected], 1)
    kept = load_file(run.path / "model" / "model.safetensors")
    for name, value in expected.items():
        assert np.abs(kept[name] - value.numpy()).max() < 1e-6, name
        assert np.abs(kept[name] - weights[-1][name]).max() > 1e-5 or name.endswith("key.bias"), name
    # What was evaluated at the last step is what is kept, and the plain weights give another loss.
    last = run.events("eval")[-1]
    assert last["loss"] == pytest.approx(run.summary()["metrics"]["validation"]["loss"], rel=1e-6)
    support.finetune("--config", config_for(folder, "plain", **EVERY_STEP))
    plain = support.Run(folder / "plain")
    assert plain.summary()["weights_sha256"] == run.summary()["weights_sha256"]
    assert abs(plain.events("eval")[-1]["loss"] - last["loss"]) > 1e-5


def test_the_best_average_is_kept(folder):
    changes = {"model": {"ema": {"decay": 0.5}}, "train": {"epochs": 3, "eval_every": 2}, "optimizer": {"learning_rate": 0.02},
               "checkpoint": {"save_every": 2, "keep_last": 100}}
    support.finetune("--config", config_for(folder, "best", **changes))
    run = support.Run(folder / "best")
    best = run.summary()["best"]
    state = load_file(run.path / "checkpoints" / "best" / "optimizer.safetensors")
    kept = load_file(run.path / "model" / "model.safetensors")
    assert best["step"] < run.summary()["steps"]
    assert all((kept[name.removeprefix("ema/")] == value).all() for name, value in state.items() if name.startswith("ema/"))
    assert run.summary()["metrics"]["validation"]["loss"] == pytest.approx(best["value"], rel=1e-5)


GRADUAL = {"model": {"unfreeze": {"every": 3}}, "train": {"epochs": 2, "batch_size": 8, "eval_every": 0},
           "checkpoint": {"save_every": 1, "keep_last": 100}, "schedule": {"type": "constant", "warmup": 0}}


def begins_at(name):
    if ".embeddings." in name:
        return 9
    return 6 if ".layer.0." in name else 3 if ".layer.1." in name else 0


def test_layers_begin_to_learn_from_the_top_down(folder):
    support.finetune("--config", config_for(folder, "gradual", **GRADUAL))
    run = support.Run(folder / "gradual")
    weights, states = checkpoints_of(run, "model.safetensors"), checkpoints_of(run, "optimizer.safetensors")
    assert len(weights) > 12
    starts = set()
    for name in weights[0]:
        begin = begins_at(name)
        starts.add(begin)
        for step, (value, state) in enumerate(zip(weights, states), start=1):
            assert state[f"step/{name}"].item() == max(0, step - begin), (name, step)
            assert (state[f"exp_avg/{name}"] != 0).any() == (step > begin) or name.endswith("key.bias"), (name, step)
        first = weights[0][name]
        if begin:
            assert all((value[name] == first).all() for value in weights[:begin]), name
        assert (weights[-1][name] != first).any(), name
    assert starts == {0, 3, 6, 9}


RECIPES = {
    "average": {"model": {"ema": {"decay": 0.9}}},
    "gradual": {"model": {"unfreeze": {"every": "4 steps"}}},
    "adapters": {"model": {"lora": {"rank": 4, "dropout": 0.2, "targets": ["query", "output.dense"]}}},
    "mean": {"model": {"pooling": "mean"}},
    "all": {"model": {"ema": {"decay": 0.9}, "unfreeze": {"every": 4}, "lora": {"rank": 2, "dropout": 0.1}, "pooling": "cls",
                      "activation_checkpointing": True}},
    "all in bf16": {"model": {"ema": {"decay": 0.9}, "unfreeze": {"every": 4}, "lora": {"rank": 2, "dropout": 0.1}},
                    "train": {"precision": "bf16", "micro_batch_size": 3}},
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("stop", [4, 7])
def test_a_resume_is_the_same_run(folder, name, stop):
    output = f"{name}-{stop}".replace(" ", "-")
    changes = support.merged({"checkpoint": {"save_every": 5}, "schedule": {"type": "constant", "warmup": 0},
                              "train": {"eval_every": 1}}, RECIPES[name])
    support.finetune("--config", config_for(folder, output + "-whole", **changes))
    config = config_for(folder, output + "-parts", **changes)
    support.finetune("--config", config, "--set", f"train.max_steps={stop}")
    support.finetune("--config", config, "--resume", "auto")
    whole, parts = (support.Run(folder / f"{output}-{which}") for which in ("whole", "parts"))
    assert whole.summary()["weights_sha256"] == parts.summary()["weights_sha256"]
    assert whole.summary()["metrics"] == parts.summary()["metrics"]
    models = [load_file(run.path / "model" / "model.safetensors") for run in (whole, parts)]
    assert all((models[0][key] == models[1][key]).all() for key in models[0])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling(folder, pooling):
    """The encoder in transformers, and the classifier on what the name says."""
    run = folder / f"pooled-{pooling}"
    support.finetune("--config", config_for(folder, run.name, model={"pooling": pooling}))
    support.finetune("predict", "--model", run / "model", "--device", "cpu", "--input", folder / "dev.csv", "--output",
                     run / "answers.jsonl", "--logits", run / "logits.npy")
    model = AutoModel.from_pretrained(run / "model", add_pooling_layer=False).eval()
    weights = load_file(run / "model" / "model.safetensors")
    assert not any("pooler" in name for name in weights)
    assert "model.pooling" in (run / "model" / "README.md").read_text()
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text, _ in support.make_rows(20, seed=2)]
    pooled = np.stack([(states[0] if pooling == "cls" else states.mean(0)).numpy() for states in rows])
    expected = pooled @ weights["classifier.weight"].T + weights["classifier.bias"]
    assert np.abs(np.load(run / "logits.npy") - expected).max() < 1e-5


@pytest.mark.parametrize("changes, key, found", [
    ({"model": {"lora": {"targets": ["q_lin"]}}}, "model.lora.targets", "bert.encoder.layer.0.attention.self.query"),
    ({"model": {"lora": {"rank": 0}}}, "/model/lora", "an integer from 1"),
    ({"model": {"lora": {"ranks": 4}}}, "/model/lora", "ranks"),
    ({"model": {"unfreeze": {"every": 0}}}, "/model/unfreeze", "model.freeze"),
    ({"model": {"unfreeze": {"every": 3}, "freeze": ["pooler", "classifier"]}}, "model.unfreeze", "model.freeze"),
    ({"model": {"ema": {"decay": 1}}}, "/model/ema", "below 1"),
    ({"model": {"pooling": "max"}}, "/model/pooling", "mean"),
    ({"model": {"pooling": "mean"}, "task": {"type": "token_classification"}}, "/model/pooling", "unset model.pooling"),
])
def test_recipes_that_cannot_be_meant(folder, changes, key, found):
    result = support.finetune("--config", config_for(folder, "refused", **changes), code=2)
    assert key in result.stderr and found in result.stderr
    assert not (folder / "refused" / "model").exists()
