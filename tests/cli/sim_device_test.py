"""The main job end to end on the simulated accelerator, loaded as a plugin as a GPU's is: the CPU's numbers, to the bit."""

import json
import pathlib
import signal

import numpy as np
import pytest
import support

PLUGIN_PATH = pathlib.Path(support.BINARY).parents[1] / "test-plugins"
SAVED_TENSORS = ("model.safetensors", "optimizer.safetensors")


@pytest.fixture(autouse=True)
def plugin_path(monkeypatch):
    """Every run of the program finds the plugin; what the device is to do besides, a test sets."""
    monkeypatch.setenv("FINETUNE_PLUGIN_PATH", str(PLUGIN_PATH))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sim")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(90, seed=1))
    support.write_csv(folder / "validation.csv", support.make_rows(40, seed=2))
    return folder


def config_for(folder, output_dir, device, **changes):
    """50 updates with dropout, clipping, shuffling and micro-batches."""
    base = {
        "output_dir": output_dir,
        "device": device,
        "data": {"validation": "validation.csv"},
        "train": {"epochs": 4, "batch_size": 8, "micro_batch_size": 3, "max_steps": 48, "log_every": 4, "eval_every": 12},
        "optimizer": {"max_grad_norm": 0.5},
        "checkpoint": {"save_every": 5, "keep_last": 2},
    }
    return support.write_config(folder / f"{output_dir}.json", "encoder", "train.csv", **support.merged(base, changes))


def train(folder, output_dir, device, *arguments, **changes):
    result = support.finetune("--config", config_for(folder, output_dir, device, **changes), "--quiet", *arguments)
    return support.Run(folder / output_dir), result


@pytest.fixture(scope="module")
def on_cpu(folder):
    return train(folder, "cpu", "cpu")[0]


def assert_same_numbers(run, expected):
    """Weights, moments, metrics and every logged number are equal."""
    for key in ("weights_sha256", "steps", "epochs", "metrics", "best", "model_step", "status"):
        assert run.summary()[key] == expected.summary()[key], key
    log, expected_log = ([e for e in r.comparable_log() if e["event"] != "start"] for r in (run, expected))
    assert log == expected_log
    for name in SAVED_TENSORS:
        assert (run.checkpoints()[-1] / name).read_bytes() == (expected.checkpoints()[-1] / name).read_bytes()
    name = "model.safetensors"
    assert (run.path / "model" / name).read_bytes() == (expected.path / "model" / name).read_bytes()


def assert_clean(report):
    """Nothing raced, nothing lay on another device, no result had to be moved, and the steps were watched."""
    assert report["violations"] == []
    assert report["foreign_operands"] == 0 and report["copied_results"] == 0 and report["cpu_scalars"] == 0
    assert report["launches"]["finetune::packed_attention"] > 0


def test_training_gives_the_cpus_numbers(folder, on_cpu, tmp_path, monkeypatch):
    monkeypatch.setenv("FINETUNE_SIM_REPORT", str(tmp_path / "report.json"))
    run, _ = train(folder, "sim", "sim:0")
    assert_same_numbers(run, on_cpu)
    start = run.events("start")[0]
    assert start["device"] == "sim:0" and "simulated" in start["device_name"]
    assert run.summary()["device"] == "sim:0"
    assert all(0 < e["memory_allocated_mb"] <= e["memory_peak_mb"] < 100 for e in run.events("train"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert_clean(report)
    assert report["strict_sections"] == 48, "host reads must be forbidden in every step"
    assert report["launches"]["finetune::adam_step"] == 48
    # Within a step nothing is read: what reads there are belong to log points, evaluations and saves.
    assert set(report["reads"]) <= {"a copy to the host", "aten::_local_scalar_dense"}


def test_the_second_device(folder, on_cpu):
    run, _ = train(folder, "sim1", "sim:1")
    assert_same_numbers(run, on_cpu)
    assert run.summary()["device"] == "sim:1"


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)],
                         ids=["killed", "stopped"])
def test_a_resume_is_the_same_run(folder, on_cpu, number, code):
    name = f"sim-{signal.Signals(number).name}"
    config = config_for(folder, name, "sim:0")
    training = support.Training(folder / name, "--config", config, "--quiet")
    training.wait_for_step(16)
    assert training.stop(number).code == code
    run = support.Run(folder / name)
    assert run.checkpoints()
    support.finetune("--config", config, "--resume", "auto", "--quiet")
    assert run.events("resume"), "the run ended before it was disturbed"
    assert_same_numbers(run, on_cpu)


def test_a_run_moves_between_devices(folder, on_cpu):
    """Begun on the CPU, gone on with on the device: a checkpoint knows no device."""
    config = config_for(folder, "moved", "cpu")
    training = support.Training(folder / "moved", "--config", config, "--quiet")
    training.wait_for_step(16)
    assert training.stop().code == 143
    support.finetune("--config", config, "--resume", "auto", "--quiet", "--set", "device=sim:0")
    run = support.Run(folder / "moved")
    assert run.summary()["weights_sha256"] == on_cpu.summary()["weights_sha256"]


@pytest.fixture
def labelled(folder):
    return support.write_csv(folder / "labelled.csv", support.make_rows(60, seed=3))


def test_eval_gives_the_cpus_metrics(folder, on_cpu, labelled, tmp_path, monkeypatch):
    monkeypatch.setenv("FINETUNE_SIM_REPORT", str(tmp_path / "report.json"))
    arguments = ["eval", "--model", on_cpu.path / "model", "--data", labelled, "--threads", 1, "--predictions"]
    expected = support.finetune(*arguments, tmp_path / "cpu.jsonl", "--device", "cpu")
    result = support.finetune(*arguments, tmp_path / "sim.jsonl", "--device", "sim:0")
    assert result.stdout == expected.stdout
    assert (tmp_path / "sim.jsonl").read_text() == (tmp_path / "cpu.jsonl").read_text()
    assert_clean(json.loads((tmp_path / "report.json").read_text()))


def test_predict_gives_the_cpus_answers(folder, on_cpu, labelled, tmp_path):
    arguments = ["predict", "--model", on_cpu.path / "model", "--input", labelled, "--threads", 1, "--logits"]
    expected = support.finetune(*arguments, tmp_path / "cpu.npy", "--device", "cpu")
    result = support.finetune(*arguments, tmp_path / "sim.npy", "--device", "sim")
    assert result.stdout == expected.stdout and len(result.lines()) == 60
    assert np.array_equal(np.load(tmp_path / "sim.npy"), np.load(tmp_path / "cpu.npy"))


def test_out_of_memory_names_the_operator_and_the_remedy(folder, monkeypatch):
    monkeypatch.setenv("FINETUNE_SIM_BUDGET", str(600_000))
    config = config_for(folder, "budget", "sim:0", train={"micro_batch_size": 8})
    support.refused(5, "--config", config, says=["sim:0 out of memory", "tried to allocate", "train.micro_batch_size"])


def test_an_allocation_that_fails_costs_only_what_was_not_saved(folder, on_cpu, monkeypatch):
    config = config_for(folder, "failing", "sim:0")
    monkeypatch.setenv("FINETUNE_SIM_FAIL", "allocation:6000")
    support.refused(5, "--config", config, says=["out of memory", "as was asked for"])
    run = support.Run(folder / "failing")
    assert run.checkpoints(), "the failure must come after the first save"
    monkeypatch.delenv("FINETUNE_SIM_FAIL")
    support.finetune("--config", config, "--resume", "auto", "--quiet")
    assert run.events("resume")
    assert_same_numbers(run, on_cpu)


@pytest.mark.parametrize("failure, words", [("copy:40", "copy to"), ("launch:3000", "the launch of")])
def test_other_failures_of_the_device(folder, monkeypatch, failure, words):
    name = "failing-" + failure.partition(":")[0]
    monkeypatch.setenv("FINETUNE_SIM_FAIL", failure)
    result = support.finetune("--config", config_for(folder, name, "sim:0"), "--quiet", code=1)
    assert "as was asked for" in result.stderr and words in result.stderr


def test_a_device_that_does_not_exist(folder):
    config = config_for(folder, "far", "sim:7")
    support.refused(5, "--config", config, says=["device 'sim:7'", "2 such device(s), numbered from 0"])


def test_without_the_plugin_there_is_no_such_device(folder, monkeypatch):
    monkeypatch.delenv("FINETUNE_PLUGIN_PATH")
    config = config_for(folder, "none", "sim:0")
    support.refused(2, "--config", config, says=["device: found 'sim:0'", "expected auto, cpu, cuda or cuda:N"])


def test_a_plugin_that_cannot_be_set_up_says_why(folder, monkeypatch):
    monkeypatch.setenv("FINETUNE_SIM_FAIL", "sometimes")
    config = config_for(folder, "setup", "sim:0")
    support.refused(5, "--config", config, says=["device 'sim:0' cannot be used", "FINETUNE_SIM_FAIL", "choose device cpu"])
