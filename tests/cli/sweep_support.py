"""What the tests of scripts/sweep share: calling it, watching it, ending it and its trials."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "sweep"
SPACE = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-5, "high": 1e-1, "log": True},
    "train.batch_size": {"type": "int", "low": 8, "high": 16, "step": 4},
    "optimizer.betas": {"type": "categorical", "choices": [[0.9, 0.999], [0.8, 0.99]]},
    "seed": {"type": "categorical", "choices": [0, 1, 2]},
}


def write_data(folder, rows=160):
    support.make_encoder(folder / "encoder", hidden_size=16, intermediate_size=32)
    support.write_csv(folder / "train.csv", support.make_rows(rows, seed=1))
    support.write_csv(folder / "validation.csv", support.make_rows(60, seed=2))
    support.write_json(folder / "space.json", SPACE)


def write_config(folder, name, **changes):
    base = {
        "output_dir": name,
        "data": {"validation": "validation.csv"},
        "train": {"epochs": 4, "log_every": 2, "eval_every": "1 epoch"},
        "checkpoint": {"metric": "accuracy", "save_every": "1 epoch"},
    }
    return support.write_config(folder / f"{name}.json", "encoder", "train.csv", **support.merged(base, changes))


class Sweep:
    """A controller process."""

    def __init__(self, config, *options, space="space.json", **environment):
        self.folder = config.parent / json.loads(config.read_text())["output_dir"]
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, config, config.parent / space, *map(str, options)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=support.environment(**environment))

    def end(self, code=0):
        stdout, stderr = self.process.communicate(timeout=support.DEADLINE_SECONDS)
        result = support.Result(self.process.returncode, stdout, stderr)
        assert result.code == code, result
        return result

    def wait_for_step(self, number, step=4):
        """Returns the trial's process ids once its log holds a step of at least `step`."""
        log = self.folder / f"trial-{number:04}" / "metrics.jsonl"
        end = time.monotonic() + support.DEADLINE_SECONDS
        while last_step(log) < step:
            assert time.monotonic() < end and self.process.poll() is None, self.process.communicate()
            time.sleep(0.002)
        return trial_processes(log.parent)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate(timeout=support.DEADLINE_SECONDS)
        return self.process.returncode


def last_step(log):
    try:
        lines = log.read_bytes().split(b"\n")[:-1]
    except OSError:
        return -1
    return max((json.loads(line)["step"] for line in lines if b'"event":"train"' in line), default=-1)


def trial_processes(folder):
    """Ids of the processes that train into `folder` or below it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "--output-dir" in words and pathlib.Path(words[words.index("--output-dir") + 1]).is_relative_to(folder):
            found.append(int(entry.name))
    return found


def wait_until_no_trial_is_left(folder):
    end = time.monotonic() + 30
    while trial_processes(folder):
        assert time.monotonic() < end, "a trial outlived its controller"
        time.sleep(0.02)


def end_process(number, ids):
    for process in ids:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def run(config, *options, code=0, **others):
    """Runs a sweep to its end; (its answer as JSON, how it ended)."""
    report = config.with_suffix(".result")
    ended = Sweep(config, "--json", report, *options, **others).end(code)
    return json.loads(report.read_text()), ended


def comparable(result):
    """A sweep's answer without its folders."""
    return [{key: value for key, value in trial.items() if key != "run"} for trial in result["trials"]], result["counts"], {
        **result["best"], "config": None}
