"""train.precision: what the formats give, how a choice is kept, and where one is refused."""

import json

import pytest
import support

LOW = ["bf16", "fp16"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("precision")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(120, seed=1))
    support.write_csv(folder / "validation.csv", support.make_rows(60, seed=2))
    return folder


def config_for(folder, output_dir, precision, **changes):
    base = {
        "output_dir": output_dir,
        "data": {"validation": "validation.csv"},
        "train": {"epochs": 4, "batch_size": 6, "micro_batch_size": 4, "log_every": 5, "precision": precision},
        "checkpoint": {"save_every": 20},
    }
    return support.write_config(folder / f"{output_dir}.json", "encoder", "train.csv", **support.merged(base, changes))


def train(folder, name, precision, *arguments, **changes):
    config = config_for(folder, name, precision, **changes)
    support.finetune("--config", config, "--quiet", *arguments)
    return support.Run(folder / name)


@pytest.fixture(scope="module")
def in_fp32(folder):
    return train(folder, "fp32", "fp32")


@pytest.mark.parametrize("precision", LOW)
def test_low_precision_learns_what_fp32_learns(folder, in_fp32, precision):
    run = train(folder, precision, precision)
    assert run.summary()["precision"] == precision
    assert run.events("start")[0]["precision"] == precision
    losses = [[event["loss"] for event in r.events("train")] for r in (run, in_fp32)]
    assert losses[0] != losses[1], "the format changed nothing"
    for low, full in zip(*losses):
        assert low == pytest.approx(full, rel=0.03, abs=0.01)
    scales = [event.get("loss_scale") for event in run.events("train")]
    assert all(scale is None for scale in scales) if precision == "bf16" else all(scale > 0 for scale in scales)
    exported = json.loads((run.path / "model" / "config.json").read_text())
    assert exported.get("torch_dtype", exported.get("dtype", "float32")) == "float32", "master weights are kept"


@pytest.mark.parametrize("precision", LOW)
def test_a_resume_is_the_same_run(folder, precision):
    whole = train(folder, f"whole-{precision}", precision)
    name = f"stopped-{precision}"
    config = config_for(folder, name, precision)
    training = support.Training(folder / name, "--config", config, "--quiet")
    training.wait_for_step(30)
    training.stop()
    support.finetune("--config", config, "--resume", "auto", "--quiet")
    resumed = support.Run(folder / name)
    assert resumed.events("resume")[-1]["step"] > 0
    assert resumed.summary()["weights_sha256"] == whole.summary()["weights_sha256"]
    assert resumed.comparable_log() == whole.comparable_log()


def test_auto_is_fp32_on_a_cpu_and_a_resume_keeps_what_was_chosen(folder):
    run = train(folder, "auto", "auto", train={"max_steps": 5, "epochs": None})
    assert run.summary()["precision"] == "fp32"
    train(folder, "kept", "bf16", train={"max_steps": 5, "epochs": None})
    config = config_for(folder, "kept", "auto", train={"max_steps": 10, "epochs": None})
    support.finetune("--config", config, "--quiet", "--resume", "auto")
    assert support.Run(folder / "kept").summary()["precision"] == "bf16"


def test_a_changed_precision_is_said(folder):
    train(folder, "changed", "bf16", train={"max_steps": 5, "epochs": None})
    config = config_for(folder, "changed", "fp32", train={"max_steps": 10, "epochs": None})
    ended = support.finetune("--config", config, "--resume", "auto")
    assert "the precision was bf16, is fp32" in ended.stderr


def test_tf32_is_refused_on_a_cpu(folder):
    config = config_for(folder, "tf32", "tf32")
    ended = support.finetune("--config", config, code=2)
    assert "/train/precision" in ended.stderr and "NVIDIA" in ended.stderr and "fp32" in ended.stderr


def test_fp16_that_never_fits_is_a_divergence(folder):
    """Weights that overflow float16 at once: the scale halves at each update until nothing is left of it."""
    config = config_for(
        folder, "overflow", "fp16", optimizer={"learning_rate": 1e8}, schedule={"type": "constant"},
        train={"epochs": 20, "log_every": 50})
    ended = support.finetune("--config", config, code=6)
    assert "overflow fp16" in ended.stderr and "bf16 or fp32" in ended.stderr
    assert support.Run(folder / "overflow").summary()["status"] == "failed"
