"""tests/data/cases/30-accumulation-and-steps: how many updates a run makes, and what a short window counts."""

import json

import pytest
import support

CASE = support.TEST_DATA / "cases" / "30-accumulation-and-steps"
EXPECTED = json.loads((CASE / "expected.json").read_text())
TOLERANCE = EXPECTED["tolerance"]


def train(folder, **changes):
    """The case's run: 9 rows, updates of 4 rows in micro-batches of 2, three epochs."""
    base = {
        "task": {"labels": ["0", "1"]},
        "data": {"shuffle": False},
        "model": {"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0},
        "train": {"epochs": 3, "batch_size": 4, "micro_batch_size": 2},
        "optimizer": {"learning_rate": EXPECTED["settings"]["lr"], "weight_decay": 0, "max_grad_norm": 0},
        "schedule": {"type": "linear", "warmup": 0},
    }
    config = support.write_config(folder / "config.json", CASE / "model", CASE / "train.csv",
                                  **support.merged(base, changes))
    support.finetune("--config", config, "--quiet")
    return support.Run(folder / "run")


def check_right(run):
    right = EXPECTED["right"]
    events = run.events("train")
    assert [e["step"] for e in events] == list(range(1, right["updates"] + 1))
    assert [e["learning_rate"] for e in events] == pytest.approx(right["lr"], abs=1e-8)
    assert [e["loss"] for e in events] == pytest.approx(right["loss_per_update"], abs=TOLERANCE)
    assert run.weights()["classifier.bias"].tolist() == pytest.approx(right["classifier_bias"], abs=TOLERANCE)
    assert run.summary()["metrics"]["test"]["loss"] == pytest.approx(right["final_loss_on_all_rows"], abs=TOLERANCE)


def test_updates_rates_and_losses(tmp_path):
    check_right(train(tmp_path, data={"test": str(CASE / "train.csv")}))


@pytest.mark.parametrize("micro_batch_size", [1, 3, 4, "auto"])
def test_micro_batches_change_nothing(tmp_path, micro_batch_size):
    check_right(train(tmp_path, data={"test": str(CASE / "train.csv")}, train={"micro_batch_size": micro_batch_size}))


def test_an_update_larger_than_the_data_still_happens(tmp_path):
    """Accumulation over 8 micro-batches where an epoch has 5: one update an epoch, over all of its rows."""
    run = train(tmp_path, train={"batch_size": 16})
    assert [e["step"] for e in run.events("train")] == [1, 2, 3]
    assert run.summary()["epochs"] == 3


def test_max_steps_ends_within_an_epoch(tmp_path):
    run = train(tmp_path, train={"max_steps": 4})
    events = run.events("train")
    assert [e["step"] for e in events] == [1, 2, 3, 4]
    assert events[-1]["epoch"] == pytest.approx(4 / 3)
    # The fourth update takes rows 0 to 3 again: the rate of its schedule differs, so only the first loss is the case's.
    assert events[0]["loss"] == pytest.approx(EXPECTED["right"]["loss_per_update"][0], abs=TOLERANCE)
    assert [e["learning_rate"] for e in events] == pytest.approx([0.005, 0.00375, 0.0025, 0.00125], abs=1e-8)
    assert run.summary()["steps"] == 4


def test_drop_last_leaves_the_short_window_out(tmp_path):
    run = train(tmp_path, train={"drop_last": True})
    assert len(run.events("train")) == 6


def test_half_an_epoch(tmp_path):
    run = train(tmp_path, train={"epochs": 0.5})
    assert len(run.events("train")) == 2
