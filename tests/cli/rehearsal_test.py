"""`--dry-run`, `--overfit-batch` and `--max-rows` with the real binary."""

import re

import pytest
import support


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rehearsal")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(96, seed=1, longest=6))
    support.write_csv(folder / "dev.csv", support.make_rows(24, seed=2, longest=6))
    return folder


def config(folder, name, **changes):
    return support.write_config(folder / f"{name}.json", "encoder", "train.csv",
                                **support.merged({"output_dir": f"runs/{name}", "data": {"validation": "dev.csv"}}, changes))


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_dry_run_does_everything_and_leaves_nothing(folder):
    job = config(folder, "dry", train={"epochs": 3, "batch_size": 8})
    before = listing(folder)
    result = support.finetune("--config", job, "--dry-run")
    assert listing(folder) == before
    for words in ("train: 96 rows, ", "steps: 36 of 8 rows, 12 an epoch, 3 epochs; 3 labels", "memory: about ", "first loss: ",
                  "a step: ", "disk: ", "3 evaluations and the last", "3 saves", "everything works"):
        assert words in result.stdout, result
    # What it says is what the run does.
    first_loss = float(re.search(r"first loss: (\S+)", result.stdout)[1])
    support.finetune("--config", job)
    run = support.Run(folder / "runs" / "dry")
    assert run.summary()["steps"] == 36 and len(run.events("eval")) == 3
    assert run.events("train")[0]["loss"] == pytest.approx(first_loss, rel=1e-3)


def test_dry_run_says_what_would_stop_the_run(folder):
    job = config(folder, "twice", train={"max_steps": 1})
    support.finetune("--config", job)
    before = listing(folder / "runs" / "twice")
    result = support.finetune("--config", job, "--dry-run", code=2)
    assert "problem: " in result.stdout and "--resume auto" in result.stdout and "everything works" not in result.stdout
    assert listing(folder / "runs" / "twice") == before
    assert "everything works" in support.finetune("--config", job, "--dry-run", "--resume", "auto").stdout


def test_dry_run_of_what_cannot_be_written(folder):
    (folder / "file").write_text("")
    job = config(folder, "nowhere", output_dir="file/run")
    support.refused(2, "--config", job, "--dry-run", says="output_dir")


@pytest.mark.parametrize("task", ["sequence_classification", "multi_label_classification", "regression", "token_classification"])
def test_a_batch_is_learned_by_heart(task, folder, tmp_path):
    rows = {
        "sequence_classification": "text,label\n" + "".join(f"the {w} is here,{i % 3}\n" for i, w in enumerate("cat dog bird red blue green paris house river".split())),
        "multi_label_classification": "text,label\n" + "".join(f"the {w} is here,{'a|b' if i % 2 else 'b|c'}\n" for i, w in enumerate("cat dog bird red".split())),
        "regression": "text,label\n" + "".join(f"the {w} is here,{i * 0.5}\n" for i, w in enumerate("cat dog bird red".split())),
        "token_classification": "".join(f"the O\n{w} B-X\nin O\nparis B-Y\n\n" for w in ("cat", "dog", "bird")),
    }[task]
    file = tmp_path / ("rows.conll" if task == "token_classification" else "rows.csv")
    file.write_text(rows)
    data = {"label_separator": "|"} if task == "multi_label_classification" else {}
    job = support.write_config(tmp_path / "job.json", folder / "encoder", file, task={"type": task}, data=data,
                               optimizer={"learning_rate": 1e-2})
    before = listing(tmp_path)
    result = support.finetune("--config", job, "--overfit-batch")
    assert "learned by heart: the job can learn" in result.stdout, result
    first, last = map(float, re.search(r"loss (\S+) -> (\S+) in", result.stdout).groups())
    assert last < 0.05 * first
    assert listing(tmp_path) == before


def test_a_low_learning_rate_is_told_from_broken_wiring(folder):
    job = config(folder, "slow", optimizer={"learning_rate": 5e-5})
    result = support.finetune("--config", job, "--overfit-batch")
    assert "learned by heart, but not at optimizer.learning_rate 5e-05" in result.stdout


def test_what_cannot_be_learned_is_said(folder, tmp_path):
    rows = [("the cat", "a"), ("the cat", "b"), ("the dog", "a"), ("the dog", "b")]
    support.write_csv(tmp_path / "train.csv", rows)
    job = support.write_config(tmp_path / "job.json", folder / "encoder", "train.csv")
    result = support.finetune("--config", job, "--overfit-batch", code=2)
    assert "4 of its rows have the same tokens as another one and another label" in result.stdout
    assert "not learned, at learning rates from 0.001 to 0.1" in result.stdout


def test_max_rows(folder):
    job = config(folder, "few", train={"epochs": 1, "batch_size": 8})
    support.finetune("--config", job, "--max-rows", "16")
    run = support.Run(folder / "runs" / "few")
    assert run.summary()["steps"] == 2 and run.events("start")[0]["data"]["train"]["rows"] == 16
    support.refused(2, "--config", job, "--max-rows", "0", says="--max-rows")


def test_the_two_checks_exclude_each_other(folder):
    support.refused(2, "--config", config(folder, "both"), "--dry-run", "--overfit-batch", says="--overfit-batch")
