"""The event files of `logging.tensorboard`, read by TensorBoard itself."""

import signal

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import support


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tensorboard")


@pytest.fixture(scope="module")
def arguments(folder):
    config = support.write_config(
        folder / "run.json", support.make_encoder(folder / "encoder"), support.write_csv(folder / "train.csv", support.make_rows(96, seed=1)),
        data={"validation_fraction": 0.25}, train={"epochs": 4, "eval_every": "3 steps"}, checkpoint={"save_every": "4 steps"},
        logging={"tensorboard": True})
    return ["--config", config, "--quiet"]


def scalars(run):
    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def logged(run, kind, field):
    return [(event["step"], pytest.approx(event[field], rel=1e-6)) for event in run.events(kind) if event.get(field) is not None]


def check(run):
    shown = scalars(run)
    for kind, group, fields in (("train", "train", ("loss", "learning_rate", "grad_norm", "tokens_per_second", "memory_peak_mb")),
                                ("eval", "validation", ("loss", "accuracy", "macro_f1")), ("epoch", "epoch", ("loss",))):
        for field in fields:
            assert shown[f"{group}/{field}"] == logged(run, kind, field), (group, field)


def test_the_scalars_are_the_logs(folder, arguments):
    support.finetune(*arguments, "--output-dir", folder / "whole")
    run = support.Run(folder / "whole")
    assert len(run.events("train")) == 36
    check(run)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_resume_leaves_no_step_twice(folder, arguments, number):
    """A killed run logged steps after its last checkpoint; TensorBoard forgets them as metrics.jsonl does."""
    target = folder / f"stopped-{number}"
    training = support.Training(target, *arguments, "--output-dir", target)
    training.wait_for_step(14)
    training.stop(number)
    support.finetune(*arguments, "--output-dir", target, "--resume", "auto")
    run = support.Run(target)
    assert len(list(target.glob("events.out.tfevents.*"))) == 2
    check(run)


def test_overwrite_deletes_the_event_files(folder, arguments):
    target = folder / "again"
    support.finetune(*arguments, "--output-dir", target)
    support.finetune(*arguments, "--output-dir", target, "--overwrite")
    assert len(list(target.glob("events.out.tfevents.*"))) == 1
    check(support.Run(target))


def test_no_event_file_unless_asked_for(folder, arguments):
    support.finetune(*arguments, "--set", "logging.tensorboard=false", "--output-dir", folder / "plain")
    assert not list((folder / "plain").glob("events.*"))
