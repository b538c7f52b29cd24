"""A resumed run is the same run: stopped anywhere and anyhow, it ends with the bytes of one that was never stopped."""

import json
import random
import shutil
import signal

import pytest
import support


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(150, seed=1))
    support.write_csv(folder / "validation.csv", support.make_rows(40, seed=2))
    return folder


def config_for(folder, output_dir, **changes):
    """200 updates in eight epochs of 25, with dropout, shuffling and micro-batches; saved every 7 steps, logged every 4."""
    base = {
        "output_dir": output_dir,
        "data": {"validation": "validation.csv"},
        "train": {"epochs": 8, "batch_size": 6, "micro_batch_size": 4, "log_every": 4, "eval_every": 20},
        "checkpoint": {"save_every": 7, "keep_last": 2},
    }
    return support.write_config(folder / f"{output_dir}.json", "encoder", "train.csv", **support.merged(base, changes))


def finish(config, directory):
    support.finetune("--config", config, "--resume", "auto", "--quiet")
    return support.Run(directory)


def assert_same_run(run, expected):
    summary = run.summary()
    assert summary["status"] == "completed"
    for key in ("weights_sha256", "steps", "epochs", "metrics", "best", "model_step"):
        assert summary[key] == expected.summary()[key], key
    assert run.comparable_log() == expected.comparable_log()
    model, optimizer = "model.safetensors", "optimizer.safetensors"
    assert (run.path / "model" / model).read_bytes() == (expected.path / "model" / model).read_bytes()
    for name in (model, optimizer):
        assert (run.checkpoints()[-1] / name).read_bytes() == (expected.checkpoints()[-1] / name).read_bytes()


@pytest.fixture(scope="module")
def undisturbed(folder):
    support.finetune("--config", config_for(folder, "undisturbed"), "--quiet")
    return support.Run(folder / "undisturbed")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stopped_and_killed_at_random_steps(folder, undisturbed, seed):
    """Several stops in one run: each resume must go on above the last one, and the end must be the same."""
    draw = random.Random(seed)
    directory = folder / f"storm-{seed}"
    config = config_for(folder, f"storm-{seed}")
    stops = sorted(draw.sample(range(2, 40), 3))
    for stop in stops:
        number = draw.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
        training = support.Training(directory, "--config", config, "--resume", "auto", "--quiet")
        training.wait_for_step(4 * stop)
        ended = training.stop(number)
        assert ended.code in (0, 128 + number if number != signal.SIGKILL else -number), ended
        for checkpoint in support.Run(directory).checkpoints():
            assert (checkpoint / "MANIFEST.json").exists()
    assert_same_run(finish(config, directory), undisturbed)
    assert not [p for p in directory.rglob("*tmp*")]


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_stop_saves_where_it_is(folder, undisturbed, number, code):
    """Without a single save of its own the run goes on exactly where it was stopped."""
    name = f"stop-{code}"
    config = config_for(folder, name, checkpoint={"save_every": 0})
    training = support.Training(folder / name, "--config", config)
    training.wait_for_step(32)
    ended = training.stop(number)
    assert ended.code == code, ended
    run = support.Run(folder / name)
    stopped_at = run.summary()["steps"]
    assert run.summary()["status"] == "interrupted" and 32 <= stopped_at < 200
    assert run.checkpoints()[-1].name == f"step-{stopped_at:08}"
    finish(config, folder / name)
    assert [e["step"] for e in run.events("resume")] == [stopped_at]
    assert_same_run(run, undisturbed)


def test_stopped_during_an_evaluation(folder, tmp_path):
    """The state is that of the step before; the evaluation is done anew, and may still make the step the best."""
    support.write_csv(tmp_path / "long.csv", support.make_rows(6000, seed=3, longest=40))
    changes = {"data": {"validation": str(tmp_path / "long.csv")}, "train": {"max_steps": 8, "eval_every": 4},
               "schedule": {"type": "constant", "warmup": 0}, "optimizer": {"learning_rate": 2e-3}}
    support.finetune("--config", config_for(folder, "evaluated", **changes), "--quiet")
    expected = support.Run(folder / "evaluated")
    config = config_for(folder, "in-evaluation", **changes)
    for stop in (4, 8):
        training = support.Training(folder / "in-evaluation", "--config", config, "--resume", "auto", "--quiet")
        training.wait_for_step(stop)
        ended = training.stop()
        assert ended.code == 143, ended
        run = support.Run(folder / "in-evaluation")
        assert run.summary()["steps"] == stop, "the stop must come during the evaluation"
        assert stop not in [e["step"] for e in run.events("eval")]
    assert_same_run(finish(config, folder / "in-evaluation"), expected)
    best = expected.summary()["best"]["step"]
    assert (run.path / "checkpoints" / "best").resolve().name == f"step-{best:08}"


def test_stopped_before_the_first_step(folder, undisturbed):
    config = config_for(folder, "early")
    training = support.Training(folder / "early", "--config", config)
    training.wait_for(lambda: (folder / "early" / ".lock").exists())
    ended = training.stop(signal.SIGKILL)
    assert ended.code == -signal.SIGKILL
    assert_same_run(finish(config, folder / "early"), undisturbed)


def test_a_kill_amid_the_writing_of_a_checkpoint_leaves_no_trace(folder, undisturbed):
    """What such a kill leaves: a temporary folder with half a checkpoint in it."""
    config = config_for(folder, "half")
    training = support.Training(folder / "half", "--config", config)
    training.wait_for_step(20)
    training.stop(signal.SIGKILL)
    checkpoints = folder / "half" / "checkpoints"
    half = checkpoints / ".tmp-step-00000210-1-0"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"\0" * 100)
    run = finish(config, folder / "half")
    assert_same_run(run, undisturbed)
    assert not half.exists()


def damage(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("victim", ["model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST.json"])
def test_a_damaged_checkpoint_is_passed_over(folder, undisturbed, victim):
    name = "damaged-" + victim.partition(".")[0]
    shutil.copytree(undisturbed.path, folder / name, symlinks=True)
    run = support.Run(folder / name)
    (run.path / "summary.json").unlink()
    newest, good = run.checkpoints()[-1], run.checkpoints()[-2]
    damage(newest / victim)
    result = support.finetune("--config", config_for(folder, name), "--resume", "auto")
    assert f"{newest} is damaged" in result.stderr and victim in result.stderr
    assert f"resumed from step {int(good.name[5:])}" in result.stderr
    assert_same_run(run, undisturbed)


def test_no_whole_checkpoint_left(folder, undisturbed):
    shutil.copytree(undisturbed.path, folder / "ruined", symlinks=True)
    for checkpoint in support.Run(folder / "ruined").checkpoints():
        (checkpoint / "model.safetensors").unlink()
    config = config_for(folder, "ruined")
    support.refused(4, "--config", config, "--resume", "auto", says=["no checkpoint in it is whole", "--overwrite"])


def test_a_finished_run_says_so(folder, undisturbed):
    before = {p: p.stat().st_mtime_ns for p in undisturbed.path.rglob("*") if p.name != ".lock"}
    result = support.finetune("--config", config_for(folder, "undisturbed"), "--resume", "auto")
    assert "this run is finished: 200 steps are done" in result.stderr
    assert {p: p.stat().st_mtime_ns for p in undisturbed.path.rglob("*") if p.name != ".lock"} == before


def test_more_epochs_train_on(folder):
    """With a constant rate, two epochs and one more are three epochs."""
    constant = {"schedule": {"type": "constant", "warmup": 0}, "data": {"validation": None}, "train": {"epochs": 3}}
    support.finetune("--config", config_for(folder, "three", **constant), "--quiet")
    config = config_for(folder, "two-and-one", **constant)
    support.finetune("--config", config, "--set", "train.epochs=2", "--quiet")
    run = support.Run(folder / "two-and-one")
    assert run.summary()["steps"] == 50
    result = support.finetune("--config", config, "--resume", "auto")
    assert "laid out for 50 steps, now for 75" in result.stderr
    assert "resume: /train/epochs was 2.0, is 3.0" in result.stderr
    assert run.summary()["steps"] == 75
    assert run.summary()["weights_sha256"] == support.Run(folder / "three").summary()["weights_sha256"]


def test_resume_where_there_is_nothing_starts_anew(folder, undisturbed):
    config = config_for(folder, "anew")
    run = finish(config, folder / "anew")
    assert not run.events("resume")
    assert_same_run(run, undisturbed)


def test_a_folder_with_a_run_is_refused_and_overwritten(folder, undisturbed):
    config = config_for(folder, "taken", train={"max_steps": 8})
    support.finetune("--config", config, "--quiet")
    summary = (folder / "taken" / "summary.json").read_bytes()
    support.refused(2, "--config", config, says=["already holds a run", "--resume auto", "--overwrite"])
    assert (folder / "taken" / "summary.json").read_bytes() == summary
    (folder / "taken" / "notes.txt").write_text("mine")
    support.finetune("--config", config, "--overwrite", "--set", "train.max_steps=4", "--quiet")
    run = support.Run(folder / "taken")
    assert run.summary()["steps"] == 4 and [p.name for p in run.checkpoints()] == ["step-00000004"]
    assert (folder / "taken" / "notes.txt").read_text() == "mine"


@pytest.fixture(scope="module")
def stopped(folder):
    """A run that was stopped."""
    config = config_for(folder, "stopped")
    training = support.Training(folder / "stopped", "--config", config)
    training.wait_for_step(12)
    assert training.stop().code == 143
    return config


CHANGES = {
    "batch size": (["train.batch_size=5"], "batch_size 6, now it is 5", "batch_size"),
    "fewer rows": (["data.max_rows=100"], "the training data", "data"),
    "other lengths": (["data.max_length=8"], "the training data", "data"),
    "labels": (['task.labels=["places","colours","animals"]'], "labels", "labels,data"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_run_is_refused_unless_allowed(folder, stopped, tmp_path, change):
    overrides, words, allowed = CHANGES[change]
    shutil.copytree(folder / "stopped", tmp_path / "run", symlinks=True)
    arguments = ["--config", stopped, "--output-dir", tmp_path / "run", "--resume", "auto"]
    for override in overrides:
        arguments += ["--set", override]
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    support.refused(2, *arguments, says=[words, "--allow-change", "--overwrite"])
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    support.finetune(*arguments, "--allow-change", allowed, "--quiet")
    assert support.Run(tmp_path / "run").summary()["status"] == "completed"


def test_going_on_from_a_named_checkpoint(folder, undisturbed):
    """In a folder of its own, from the middle of another run."""
    checkpoint = undisturbed.checkpoints()[-2]
    config = config_for(folder, "branch")
    support.finetune("--config", config, "--resume", checkpoint, "--quiet")
    run = support.Run(folder / "branch")
    summary = run.summary()
    assert summary["weights_sha256"] == undisturbed.summary()["weights_sha256"]
    assert summary.get("best", {"step": 200})["step"] == 200, "the other run's best lies in another folder"
    assert summary["model_step"] == 200
    support.refused(2, "--config", config, "--resume", checkpoint, says=["already holds a run", "--overwrite"])
    own = run.checkpoints()[0]
    support.refused(2, "--config", config, "--resume", own, "--overwrite", says=["would delete", "--resume auto"])
    assert own.exists()
    support.refused(4, "--config", config_for(folder, "nowhere"), "--resume", folder / "missing",
                    says=["missing is no folder and no file", "step-*"])


def test_usr1_saves_and_goes_on(folder, undisturbed):
    config = config_for(folder, "usr1", checkpoint={"save_every": 0}, data={"validation": None})
    training = support.Training(folder / "usr1", "--config", config)
    training.wait_for_step(8)
    training.send(signal.SIGUSR1)
    assert training.end().code == 0
    run = support.Run(folder / "usr1")
    asked_for, last = [e["step"] for e in run.events("save")]
    assert 8 <= asked_for < last == 200
    assert run.summary()["weights_sha256"] == undisturbed.summary()["weights_sha256"]


def test_other_threads_are_said(folder, stopped, tmp_path):
    shutil.copytree(folder / "stopped", tmp_path / "run", symlinks=True)
    result = support.finetune("--config", stopped, "--output-dir", tmp_path / "run", "--resume", "auto", "--set",
                              "threads=2", "--set", "train.max_steps=16")
    assert "resume: threads was 1, is 2: the last bits of the weights will differ" in result.stderr


def test_state_names_what_the_run_depends_on(undisturbed):
    state = json.loads((undisturbed.checkpoints()[-1] / "state.json").read_text())
    assert state["batch_size"] == 6 and state["task"] == "sequence_classification" and state["num_steps"] == 200
    assert state["labels"] == sorted(support.TOPICS) and state["environment"]["threads"] == 1
    assert state["config"]["model"]["path"].endswith("/encoder")
