"""The logic of scripts/gpu-check, on a machine without a GPU."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest
import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"
BUILD = pathlib.Path(support.BINARY).parents[1]
HAS_PLUGIN = (BUILD / "lib" / "libfinetune_cuda.so").exists()


@pytest.fixture(scope="module")
def gpu_check():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def call(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def check(gpu_check, tmp_path):
    class Options:
        build = BUILD
        python = sys.executable

    return gpu_check.Check(Options, tmp_path)


def test_without_a_gpu_only_the_rest_runs(tmp_path):
    report = tmp_path / "report.json"
    done = call("--without-gpu", "--build", BUILD, "--json", report)
    written = json.loads(report.read_text())
    parts = written["parts"]
    assert parts["program"]["result"] == ("pass" if HAS_PLUGIN else "fail"), parts["program"]
    assert done.returncode == (0 if HAS_PLUGIN else 1), done.stderr
    assert {part["reason"] for name, part in parts.items() if name != "program"} == {"no GPU"}
    assert len(parts) >= 14
    assert done.stdout.splitlines()[-1].startswith(f"scripts/gpu-check: {written['result']}: ")


def test_a_machine_without_a_driver_is_said(gpu_check, monkeypatch, capsys):
    monkeypatch.setattr(gpu_check, "has_gpu", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu-check", "--build", str(BUILD)])
    assert gpu_check.main() == 77
    assert "no NVIDIA driver" in capsys.readouterr().out


def test_a_part_that_fails_stops_no_other(gpu_check, check):
    def passes(_, values):
        values["x"] = 1

    def falls_short(_, values):
        values["y"] = 2
        gpu_check.require(False, "too slow")

    def breaks(*_):
        raise ZeroDivisionError("oh")

    def leaves_out(*_):
        raise gpu_check.Skipped("nothing to do")

    parts = [("a", falls_short, False), ("b", breaks, True), ("c", leaves_out, False), ("d", passes, True)]
    records = gpu_check.run_parts(parts, check, gpu_is_there=True, seconds=60)
    assert [record["result"] for record in records.values()] == ["fail", "fail", "skipped", "pass"]
    assert records["a"]["values"] == {"y": 2} and records["a"]["reason"] == "too slow"
    assert records["b"]["reason"] == "ZeroDivisionError: oh"
    assert records["d"]["values"] == {"x": 1}


def test_no_part_starts_after_the_time_is_up(gpu_check, check):
    records = gpu_check.run_parts([("late", lambda *_: None, False)], check, gpu_is_there=True, seconds=-1)
    assert records["late"]["result"] == "skipped" and records["late"]["reason"] == "no time left"


def test_a_program_that_fails_is_quoted(gpu_check, check):
    with pytest.raises(gpu_check.Failed, match="finetune ended with 2, expected 0: .*no-such-flag"):
        check.run(check.binary, "--no-such-flag")


def test_the_runs_of_the_parts_train(gpu_check, check):
    """What the GPU parts do, on the CPU: the same run twice, and one stopped and resumed."""
    whole, events = check.small_run("whole", "cpu", "fp32")
    assert whole["steps"] == 75 and len(events) == 15
    assert events[-1]["loss"] < events[0]["loss"]
    check.small_run("stopped", "cpu", "fp32", "--set", "train.max_steps=31")
    resumed, _ = check.small_run("stopped", "cpu", "fp32", "--resume", "auto")
    assert resumed["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.parametrize("lines, passes", [("90", False), ("99", True)])
def test_the_drivers_samples_are_judged(gpu_check, check, monkeypatch, lines, passes):
    monkeypatch.setattr(check, "run", lambda *_, **__: lines + "\n")
    monkeypatch.setattr(check, "speed", lambda *_, **__: gpu_check.time.sleep(0.7))
    record = gpu_check.run_part(gpu_check.idle, check, deadline=float("inf"))
    assert record["result"] == ("pass" if passes else "fail"), record
    assert record["values"]["idle"] == pytest.approx(1 - int(lines) / 100)


@pytest.mark.parametrize("ratio, passes", [(3.1, True), (2.0, False)])
def test_speed_is_judged_by_batch_size(gpu_check, check, monkeypatch, ratio, passes):
    monkeypatch.setattr(check, "needs_transformers", lambda: None)
    monkeypatch.setattr(check, "speed", lambda *_: ratio * 10)
    monkeypatch.setattr(check, "hugging_face", lambda *_: 10.0)
    record = gpu_check.run_part(gpu_check.speed, check, deadline=float("inf"))
    assert record["result"] == ("pass" if passes else "fail"), record
    assert set(record["values"]) == {"4", "8", "16", "32", "128"}
    if not passes:
        assert "batch 4" in record["reason"] and "batch 32" not in record["reason"]


@pytest.mark.skipif(not HAS_PLUGIN, reason="this build has no GPU plugin")
def test_what_is_packed_runs_from_its_folder(tmp_path):
    assert call("--build", BUILD, "--pack", tmp_path / "packed").returncode == 0
    assert (tmp_path / "packed" / "lib" / "libfinetune_cuda.so").exists()
    names = {path.name for path in (tmp_path / "packed" / "lib").iterdir()}
    assert not any(name.startswith(("libtorch", "libc.so", "libc10", "libcu")) for name in names), names
    assert any(name.startswith("libspdlog") for name in names), names
    done = subprocess.run([tmp_path / "packed" / "bin" / "finetune", "--version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
