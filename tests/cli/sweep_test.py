"""scripts/sweep: a study is what its seed says, whatever ends the controller or its trials on the way."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import support
import sweep_support
from sweep_support import Sweep, end_process, run, wait_until_no_trial_is_left, write_config

TRIALS = ("--trials", "6", "--seed", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    sweep_support.write_data(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(folder):
    return run(write_config(folder, "undisturbed"), *TRIALS)


@pytest.fixture(scope="module")
def sweep_modules():
    """The script's own modules, so that two dozen spaces need not be two dozen processes."""
    sys.path.insert(0, str(sweep_support.SCRIPT.parent))
    from sweeps import program, space

    schema = program.Program().schema()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Program, "schema", lambda self: schema)
        yield program, space


@pytest.fixture(scope="module")
def script(sweep_modules):
    loader = importlib.machinery.SourceFileLoader("sweep", str(sweep_support.SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sweep", loader))
    loader.exec_module(module)
    return module


def refusal(script, capsys, config, *options, space="space.json"):
    """What the script says when it refuses; within this process, since a new one takes its time to load Optuna."""
    try:
        code = script.main([str(config), str(config.parent / space), *map(str, options)])
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr().err
    assert code == 2 and "secret" not in said, said
    return said


def test_a_study_from_end_to_end(folder, undisturbed):
    result, ended = undisturbed
    trials = result["trials"]
    assert [trial["number"] for trial in trials] == list(range(6))
    assert result["counts"]["failed"] == 0 and result["counts"]["pruned"] > 0 and result["counts"]["finished"] > 0
    for trial in trials:
        evaluated = [event["accuracy"] for event in support.Run(trial["run"]).events("eval")]
        assert trial["evaluations"] <= len(evaluated) and trial["values"]["seed"] in sweep_support.SPACE["seed"]["choices"]
        assert 1e-5 <= trial["values"]["optimizer.learning_rate"] <= 1e-1 and trial["values"]["train.batch_size"] in (8, 12, 16)
        kept = support.read_jsonl(pathlib.Path(trial["run"]) / "metrics.jsonl")
        assert kept and (pathlib.Path(trial["run"]) / "model").exists() == (trial["number"] == result["best"]["number"])
        if trial["result"] == "finished":
            assert trial["value"] == max(evaluated) and trial["evaluations"] == 4
    assert result["best"]["value"] == max(trial["value"] for trial in trials if trial["result"] == "finished")
    lines = ended.stdout.splitlines()
    columns = ["trial", "result", "accuracy", "evaluations", *sorted(sweep_support.SPACE)]
    assert len(lines) == 1 + 6 + 2 and lines[0].split() == columns
    page = folder / "undisturbed" / "report.html"
    assert lines[-2] == f"all trials in one page: {page}" and "trial-0005" in page.read_text()
    assert re.fullmatch(rf"scripts/sweep: done: 6 trials \(.*\); best is trial {result['best']['number']}: .*best\.json", lines[-1])


def test_the_best_config_runs_as_it_is(undisturbed):
    best = undisturbed[0]["best"]
    support.finetune("--config", best["config"], "--quiet")
    config = pathlib.Path(best["config"])
    trial = support.Run(config.parent / f"trial-{best['number']:04}").summary()
    assert support.Run(config.parent / "best").summary()["weights_sha256"] == trial["weights_sha256"]


def test_kills_of_trials_and_controllers_change_nothing(folder, undisturbed, script, capsys):
    """Trials are ended by signals, the controller is killed once and asked to stop once; no trial outlives it."""
    config = write_config(folder, "storm")
    for number, ended_by in ((0, signal.SIGTERM), (2, signal.SIGKILL)):
        sweep = Sweep(config, *TRIALS)
        for ending in (signal.SIGKILL, signal.SIGTERM):
            end_process(ending, sweep.wait_for_step(number + 1 if ending == signal.SIGTERM else number))
        # The trial stands still meanwhile: a busy machine may take longer to refuse than all trials take.
        trial = sweep.wait_for_step(number + 1)
        end_process(signal.SIGSTOP, trial)
        try:
            assert "another sweep is at work" in refusal(script, capsys, config, *TRIALS)
        finally:
            end_process(signal.SIGCONT, trial)
        assert sweep.kill(ended_by) == (-signal.SIGKILL if ended_by == signal.SIGKILL else 128 + signal.SIGTERM)
        wait_until_no_trial_is_left(sweep.folder)
    ended_before = {path: path.read_bytes() for path in sweep.folder.glob("trial-000[0-2]/metrics.jsonl")}
    result, _ = run(config, *TRIALS)
    assert sweep_support.comparable(result) == sweep_support.comparable(undisturbed[0])
    assert all(path.read_bytes() == content for path, content in ended_before.items()), "an ended trial ran again"


def test_a_finished_study_is_shown_again(folder, undisturbed):
    again, ended = run(folder / "undisturbed.json", *TRIALS)
    assert again == undisturbed[0] and ended.stderr == ""


def test_more_trials_go_on_with_the_same_study(folder, script, capsys):
    config = write_config(folder, "grows", train={"epochs": 1})
    two, _ = run(config, "--trials", 2, "--pruner", "none", "--keep", "none")
    three, _ = run(config, "--trials", 3, "--pruner", "none", "--keep", "none")
    assert three["trials"][:2] == two["trials"] and three["counts"] == {"finished": 3, "pruned": 0, "failed": 0}
    assert not list((folder / "grows").glob("trial-*/model"))
    (folder / "grows" / "study.db").unlink()
    assert "holds the trials of another study" in refusal(script, capsys, config, "--trials", 3, "--pruner", "none")


STAND_IN = """#!/bin/sh
# Ends some trials in ways of their own; all else is the real program.
echo "$@" >> "{folder}/calls"
case "$*" in
  *trial-0001*) echo "error: no memory left" >&2; exit 5 ;;
  *trial-0002*) echo "error: the loss is not finite" >&2; exit 6 ;;
  *trial-0003*) kill -KILL $$ ;;
  *trial-0004*) kill -SEGV $$ ;;
  config*) exec "{binary}" "$@" ;;
  *) exec "{binary}" "$@" --set device=cpu ;;
esac
"""


def stand_in(folder):
    program = folder / "program"
    program.write_text(STAND_IN.format(folder=folder, binary=support.BINARY))
    program.chmod(0o755)
    return str(program)


def test_failed_trials_are_recorded_and_the_rest_goes_on(folder, tmp_path):
    """Out of memory, diverged, ended from outside time and again, crashed: the last two make the sweep fall short. Two workers,
    each with a device of its own."""
    config = write_config(folder, "fails", train={"epochs": 1})
    result, ended = run(config, "--trials", 7, "--sampler", "random", "--pruner", "none", "--keep", "all", "--devices",
                        "cuda:0,cuda:1", code=1, FINETUNE_BINARY=stand_in(tmp_path))
    reasons = {trial["number"]: trial["reason"] for trial in result["trials"] if trial["result"] == "failed"}
    assert reasons.pop(1) == "device or memory: error: no memory left"
    assert reasons.pop(2) == "diverged: error: the loss is not finite"
    assert "SIGKILL again and again" in reasons.pop(3)
    assert reasons == {4: "crashed by SIGSEGV"}
    assert "FELL SHORT: 2 trials crashed, of 7 trials (3 finished, 0 pruned, 4 failed)" in ended.stdout
    assert len(list((folder / "fails").glob("trial-*/model"))) == 3
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if "--output-dir" in line]
    assert {re.search(r'device="(cuda:\d)"', call)[1] for call in calls} == {"cuda:0", "cuda:1"}


def test_a_run_that_diverges(folder):
    """By the real program: no rate of this grid but the first is of any use."""
    rates = {"optimizer.learning_rate": {"type": "categorical", "choices": [1e-3, 1e38]}}
    space = support.write_json(folder / "wild-space.json", rates)
    config = write_config(folder, "wild", train={"epochs": 1})
    result, _ = run(config, "--sampler", "grid", space=space.name)
    assert sorted(trial["result"] for trial in result["trials"]) == ["failed", "finished"]
    failed = next(trial for trial in result["trials"] if trial["result"] == "failed")
    assert failed["reason"].startswith("diverged: ") and failed["values"] == {"optimizer.learning_rate": 1e38}


def test_nothing_is_tried_for_long_that_cannot_work(folder):
    config = write_config(folder, "absent", data={"train": "absent.csv"})
    ended = Sweep(config, *TRIALS).end(1)
    assert "FELL SHORT: the first 3 trials failed" in ended.stdout and "absent.csv" in ended.stdout
    assert not (folder / "absent" / "trial-0003").exists()


NUMBER = {"type": "float", "low": 1e-5, "high": 1e-3}
BAD_SPACES = {
    "unknown key": ({"optimiser.learning_rate": NUMBER}, "did you mean optimizer.learning_rate?"),
    "unknown key, known name": ({"optim.weight_decay": NUMBER}, "did you mean optimizer.weight_decay?"),
    "section": ({"optimizer": NUMBER}, "is a section of the config"),
    "own key": ({"output_dir": {"type": "categorical", "choices": ["a"]}}, "each trial has a folder of its own"),
    "empty": ({}, "it is empty"),
    "no type": ({"seed": {"low": 0, "high": 1}}, '"type" is null, expected one of float, int, categorical'),
    "bare value": ({"seed": 3}, "expected an object such as"),
    "unknown field": ({"seed": {"type": "int", "low": 0, "high": 1, "base": 2}}, 'unknown field "base"'),
    "no bound": ({"seed": {"type": "int", "low": 0}}, '"high" is null, expected a number'),
    "upside down": ({"seed": {"type": "int", "low": 2, "high": 1}}, "no value lies between low 2 and high 1"),
    "log of zero": ({"optimizer.learning_rate": {**NUMBER, "low": 0, "log": True}}, "begins above 0"),
    "log and step": ({"optimizer.learning_rate": {**NUMBER, "step": 1e-5, "log": True}}, "exclude each other"),
    "step of zero": ({"seed": {"type": "int", "low": 0, "high": 9, "step": 0}}, "expected a number above 0"),
    "half an int": ({"seed": {"type": "int", "low": 0.5, "high": 9}}, "expected a whole number"),
    "log is a word": ({"seed": {"type": "int", "low": 1, "high": 9, "log": "yes"}}, "expected true or false"),
    "float for int": ({"train.batch_size": NUMBER}, 'use "type": "int"'),
    "number for word": ({"schedule.type": NUMBER}, 'use "type": "categorical"'),
    "no choices": ({"seed": {"type": "categorical", "choices": []}}, "at least one value"),
    "choice twice": ({"seed": {"type": "categorical", "choices": [1, 1]}}, "names a value twice"),
    "value that no config takes": ({"schedule.type": {"type": "categorical", "choices": ["linear", "lin"]}},
                                   'the config does not take "lin"'),
    "bound that no config takes": ({"model.dropout": {"type": "float", "low": 0, "high": 1.5}}, "the config does not take 1.5"),
    "a list": ([1], "expected an object"),
    "not JSON": ("{", "not JSON"),
    "key twice": ('{"seed": 1, "seed": 2}', 'the key "seed" stands in it twice'),
}


@pytest.mark.parametrize("name", BAD_SPACES)
def test_an_impossible_space(folder, tmp_path, sweep_modules, monkeypatch, name):
    program, space = sweep_modules
    content, words = BAD_SPACES[name]
    path = tmp_path / "space.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(program.UsageError, match=re.escape(words)) as refusal:
        space.Space(path).check(program.Program(), write_config(folder, "refused"))
    assert str(path) in str(refusal.value)


REFUSED = {
    "bad space": ({}, ("--trials", 2), {"seed": {"type": "int", "low": 2, "high": 1}}, "no value lies between"),
    "grid without steps": ({}, ("--sampler", "grid"), {"optimizer.learning_rate": NUMBER}, 'give "step"'),
    "grid too small": ({}, ("--sampler", "grid", "--trials", 5), {"seed": {"type": "int", "low": 0, "high": 3}}, "has 4 points"),
    "no validation": ({"data": {"validation": None}}, (), None, "set data.validation"),
    "no evaluation": ({"train": {"eval_every": "never"}}, (), None, "train.eval_every turns them off"),
    "wrong config": ({"train": {"epoks": 3}}, (), None, "epoks"),
    "storage of no kind": ({}, ("--storage", "nowhere"), None, "expected sqlite:///FILE or postgresql://"),
    "storage out of reach": ({}, ("--storage", "postgresql://me:secret@127.0.0.1:1/studies"), None,
                             "postgresql://me:***@127.0.0.1:1/studies cannot be used"),
    "storage that is none": ({}, ("--storage", "sqlite:///{folder}/train.csv"), None, "not a database"),
    "no device": ({}, ("--devices", "gpu0"), None, '"gpu0" is no device'),
    "too many workers": ({}, ("--devices", "cuda:0,cuda:1", "--workers", 3), None, "needs as many --devices"),
    "no trials": ({}, ("--trials", 0), None, "expected at least 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_any_trial(folder, script, capsys, name):
    changes, options, space, words = REFUSED[name]
    config = write_config(folder, f"refused-{name.replace(' ', '-')}", **changes)
    space = support.write_json(config.with_suffix(".space"), space or {"seed": {"type": "int", "low": 0, "high": 3}})
    options = [str(option).format(folder=folder) for option in options]
    assert words in refusal(script, capsys, config, *options, space=space.name)
    assert not list(folder.glob(f"{config.stem}/trial-*"))


def test_another_study_is_refused(folder, undisturbed, script, capsys):
    """Another space, another config, other settings; another study in the folder."""
    config = folder / "undisturbed.json"
    support.write_json(folder / "other.json", {"seed": {"type": "int", "low": 0, "high": 3}})
    assert "/space/optimizer.learning_rate" in refusal(script, capsys, config, *TRIALS, space="other.json")
    changed = write_config(folder, "changed", output_dir="undisturbed", train={"epochs": 2})
    said = refusal(script, capsys, changed, "--seed", 1)
    assert "/config/train/epochs: 4.0 there, now 2.0" in said and "/seed: 3 there, now 1" in said
    assert "holds the trials of another study" in refusal(script, capsys, config, *TRIALS, "--study", "second")


def readme_block(words):
    """The indented block of the README's section Sweeps that holds `words`."""
    section = (sweep_support.ROOT / "README.md").read_text().split("\n## Sweeps\n")[1].split("\n## ")[0]
    return next(block for block in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE) if words in block)


def test_the_loop_of_the_readme(folder, tmp_path):
    write_config(folder, "mine-in-a-loop", train={"max_steps": 2}).rename(folder / "mine.json")
    (tmp_path / "finetune").symlink_to(support.BINARY)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-e", "-c", readme_block("for ")], cwd=folder, check=True, timeout=200,
                   env=support.environment(PATH=path))
    runs = sorted(folder.glob("runs/*/summary.json"))
    assert len(runs) == 3 and len({json.loads(run.read_text())["weights_sha256"] for run in runs}) == 3


def test_the_example_space_fits_the_example_config(sweep_modules):
    program, space = sweep_modules
    configs = sweep_support.ROOT / "configs"
    space.Space(configs / "sweep" / "space.json").check(program.Program(), configs / "tiny.json")
    assert "scripts/sweep configs/tiny.json configs/sweep/space.json" in readme_block("scripts/sweep")


def test_a_slurm_array_is_requeued_and_goes_on(folder, tmp_path):
    """The job script without Slurm: SIGTERM (the limit is near) saves and asks for the requeue, the next start goes on."""
    config = write_config(folder, "array", train={"epochs": 40}, checkpoint={"save_every": None})
    (tmp_path / "runs.txt").write_text("seed=1\nseed=2 optimizer.learning_rate=3e-3\n")
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/requeued"\n')
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "finetune").symlink_to(support.BINARY)
    environment = support.environment(PATH=f"{tmp_path}:{os.environ['PATH']}", SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_JOB_ID="77")
    command = ["bash", sweep_support.ROOT / "scripts" / "slurm-array.sh", config, tmp_path / "runs.txt", tmp_path / "out"]
    job = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "out" / "run-0001" / "metrics.jsonl"
    while sweep_support.last_step(log) < 6:
        assert job.poll() is None, job.communicate()
    job.terminate()
    job.communicate(timeout=support.DEADLINE_SECONDS)
    run = support.Run(log.parent)
    assert run.summary()["status"] == "interrupted" and (tmp_path / "requeued").read_text() == "requeue 77_1\n"
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=support.DEADLINE_SECONDS)
    assert run.summary()["status"] == "completed" and len(run.events("resume")) == 1
    written = json.loads((run.path / "config.json").read_text())
    assert written["seed"] == 2 and written["optimizer"]["learning_rate"] == 3e-3
    bad = subprocess.run([*command[:3], tmp_path / "none.txt"], env=environment, capture_output=True, text=True)
    assert bad.returncode == 2 and "none.txt" in bad.stderr
    past = subprocess.run(command, env={**environment, "SLURM_ARRAY_TASK_ID": "2"}, capture_output=True, text=True)
    assert past.returncode == 2 and "has 2 runs" in past.stderr
