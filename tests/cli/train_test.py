"""Training, evaluating and predicting with the real binary on a tiny model."""

import hashlib
import json
import subprocess

import numpy as np
import pytest
import support

CLASSES = sorted(support.TOPICS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(120, seed=1, longest=6))
    support.write_csv(folder / "validation.csv", support.make_rows(60, seed=2, longest=6))
    support.write_csv(folder / "test.csv", support.make_rows(60, seed=3, longest=6))
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """A finished run on relative paths, started from another directory."""
    config = support.write_config(
        folder / "config.json", "encoder", "train.csv",
        data={"validation": "validation.csv", "test": "test.csv"},
        train={"epochs": 8, "log_every": "5 steps"}, optimizer={"learning_rate": 3e-3})
    result = support.finetune("--config", config, cwd="/")
    return support.Run(folder / "run"), result


def test_learns(trained):
    run, _ = trained
    losses = [e["loss"] for e in run.events("epoch")]
    assert losses[-1] < 0.6 * losses[0]
    assert run.summary()["metrics"]["test"]["accuracy"] > 0.75


def test_events(trained):
    run, _ = trained
    events = run.events()
    assert events[0]["event"] == "start" and events[-1]["event"] == "end"
    start = events[0]
    assert start["num_steps"] == 120 and start["device"] == "cpu" and start["threads"] == 1
    assert start["precision"] == "fp32" and start["world_size"] == 1 and start["isa"] and start["libtorch"]
    assert start["data"]["train"]["rows"] == 120 and start["data"]["test"]["truncated"] == 0
    assert [e["step"] for e in run.events("train")] == list(range(5, 121, 5))
    assert [e["step"] for e in run.events("epoch")] == list(range(15, 121, 15))
    assert [e["epoch"] for e in run.events("epoch")] == list(range(1, 9))
    assert [(e["step"], e["split"]) for e in run.events("eval")] == [
        (step, "validation") for step in range(15, 121, 15)]
    for event in run.events("train"):
        assert event["grad_norm"] > 0 and event["learning_rate"] >= 0 and event["skipped_updates"] == 0
        assert event["tokens_per_second"] > event["samples_per_second"] > 0
        assert 0 <= event["data_wait_fraction"] <= 1 and event["flops_fraction"] > 0
        assert 0 < event["memory_allocated_mb"] <= event["memory_peak_mb"]


def test_epoch_loss_is_the_mean_over_its_rows(folder):
    config = support.write_config(folder / "mean.json", "encoder", "train.csv", output_dir="mean",
                                  data={"max_rows": 20}, train={"epochs": 1, "batch_size": 8})
    support.finetune("--config", config, "--quiet")
    run = support.Run(folder / "mean")
    losses = [e["loss"] for e in run.events("train")]
    assert len(losses) == 3
    expected = (8 * losses[0] + 8 * losses[1] + 4 * losses[2]) / 20
    assert run.events("epoch")[0]["loss"] == pytest.approx(expected, rel=1e-6)


def test_summary(trained):
    run, _ = trained
    summary = run.summary()
    assert summary["status"] == "completed" and summary["steps"] == 120 and summary["epochs"] == 8
    assert summary["device"] == "cpu" and summary["precision"] == "fp32" and summary["world_size"] == 1
    assert 0 < summary["train_seconds"] and 0 < summary["first_step_seconds"]
    assert summary["samples_per_second"] == pytest.approx(960 / summary["train_seconds"])
    assert summary["tokens_per_second"] > summary["samples_per_second"]
    assert summary["peak_memory_mb"] > 10
    assert set(summary["metrics"]) == {"validation", "test"}
    losses = {e["step"]: e["loss"] for e in run.events("eval")}
    best = min(losses, key=losses.get)
    assert summary["best"] == {"step": best, "metric": "loss", "value": losses[best]}
    assert summary["metrics"]["validation"]["loss"] == pytest.approx(losses[best], rel=1e-6)


def test_weights_hash_is_over_names_and_bytes(trained):
    run, _ = trained
    digest = hashlib.sha256()
    for name, values in sorted(run.weights().items()):
        digest.update(name.encode() + values.tobytes())
    assert run.summary()["weights_sha256"] == digest.hexdigest()


def test_files_of_a_run(trained):
    run, _ = trained
    names = {p.name for p in run.path.iterdir()} - {".lock"}
    assert names == {"config.json", "metrics.jsonl", "checkpoints", "model", "summary.json", "details.json", "report.html"}
    assert {p.name for p in (run.path / "model").iterdir()} >= {
        "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "finetune.json", "README.md"}
    newest = run.checkpoints()[-1]
    assert newest.name == "step-00000120"
    assert {p.name for p in newest.iterdir()} == {"model.safetensors", "optimizer.safetensors", "state.json",
                                                  "MANIFEST.json"}
    assert (run.path / "checkpoints" / "latest").resolve() == newest.resolve()
    saved = json.loads((run.path / "config.json").read_text())
    assert saved["train"]["batch_size"] == 8 and saved["optimizer"]["weight_decay"] == 0.01


def test_saved_config_runs_again(trained, folder):
    """The resolved config is complete: it gives the same weights."""
    run, _ = trained
    support.finetune("--config", run.path / "config.json", "--output-dir", folder / "again", "--quiet")
    assert support.Run(folder / "again").summary()["weights_sha256"] == run.summary()["weights_sha256"]


def test_words_on_stderr(trained):
    _, result = trained
    assert result.stdout == ""
    for words in ("device:", "train: 120 rows", "training: 120 steps of 8 rows", "120/120", "accuracy",
                  "newly initialised: classifier.weight, classifier.bias"):
        assert words in result.stderr, words
    assert "\x1b" not in result.stderr and "\r" not in result.stderr


def test_quiet_says_nothing(folder):
    config = support.write_config(folder / "quiet.json", "encoder", "train.csv", output_dir="quiet",
                                  train={"max_steps": 2})
    result = support.finetune("--config", config, "--quiet")
    assert result.stdout == "" and result.stderr == ""


def test_eval_gives_the_summarys_figures(trained, folder):
    run, _ = trained
    result = support.finetune("eval", "--model", run.path / "model", "--device", "cpu", "--threads", "1", "--data",
                              folder / "test.csv")
    [metrics] = result.lines()
    expected = run.summary()["metrics"]["test"]
    for table in ("confusion", "per_class"):
        assert metrics.pop(table) == expected.pop(table)
    assert metrics == pytest.approx(expected, rel=1e-5)


def predict(run, *arguments, **options):
    return support.finetune("predict", "--model", run.path / "model", "--device", "cpu", *arguments, **options)


def test_predict_keeps_the_order_of_any_kind_of_input(trained, tmp_path):
    run, _ = trained
    # More rows than are answered together, of very different lengths.
    texts = [text for text, _ in support.make_rows(2500, seed=8, longest=40)]
    plain = tmp_path / "texts.txt"
    plain.write_text("".join(text + "\n" for text in texts))
    from_file = predict(run, "--input", plain).lines()
    assert [line["text"] for line in from_file] == texts
    assert all(set(line["scores"]) == set(CLASSES) for line in from_file)

    assert predict(run, stdin=plain.read_text()).lines() == from_file
    rows = [(text,) for text in texts]
    assert predict(run, "--input", support.write_csv(tmp_path / "t.csv", rows, ["text"])).lines() == from_file
    assert predict(run, "--input", support.write_jsonl(tmp_path / "t.jsonl", rows, ["text"])).lines() == from_file
    predict(run, "--input", support.write_csv(tmp_path / "t.tsv", rows, ["text"], "\t"), "--output",
            tmp_path / "answers.jsonl", "--logits", tmp_path / "logits.npy")
    assert support.read_jsonl(tmp_path / "answers.jsonl") == from_file

    logits = np.load(tmp_path / "logits.npy").astype(np.float64)
    assert logits.shape == (len(texts), len(CLASSES))
    scores = np.exp(logits - logits.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    given = np.array([[line["scores"][name] for name in CLASSES] for line in from_file])
    assert np.abs(scores - given).max() < 1e-12


def test_predict_reads_other_columns_when_told(trained, tmp_path):
    run, _ = trained
    rows = [("1", "the cat"), ("2", "red, red")]
    data = support.write_csv(tmp_path / "rows.csv", rows, ("id", "body"))
    by_name = predict(run, "--input", data, "--text", "body").lines()
    assert [line["text"] for line in by_name] == ["the cat", "red, red"]
    by_number = predict(run, "--input", data, "--text", "1").lines()[-2:]
    assert [line["text"] for line in by_number] == ["the cat", "red, red"]
    for line, expected in zip(by_number, by_name):
        assert line["scores"] == pytest.approx(expected["scores"], abs=1e-6)


def test_predict_empty_lines_and_no_lines(trained):
    run, _ = trained
    assert [line["text"] for line in predict(run, stdin="cat\n\nred\n").lines()] == ["cat", "", "red"]
    assert predict(run, stdin="").stdout == ""


def test_predict_to_a_reader_that_leaves(trained):
    """`finetune predict | head -1`: no crash, no endless run."""
    run, _ = trained
    process = subprocess.Popen([support.BINARY, "predict", "--model", run.path / "model", "--device", "cpu"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=support.environment())
    process.stdout.close()
    stderr = process.communicate(("the cat\n" * 5000).encode(), timeout=support.DEADLINE_SECONDS)[1].decode()
    assert process.returncode == 2 and "cannot write to standard output" in stderr


def write_folder(path, rows):
    for number, (text, label) in enumerate(rows):
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{number:03}.txt").write_text(text)
    return path


def test_layouts_of_data_give_the_same_run(folder, tmp_path):
    rows = sorted(support.make_rows(24, seed=4), key=lambda row: row[1])
    layouts = {
        "csv": support.write_csv(tmp_path / "rows.csv", rows),
        "tsv": support.write_csv(tmp_path / "rows.tsv", rows, delimiter="\t"),
        "jsonl": support.write_jsonl(tmp_path / "rows.jsonl", rows),
        "folder": write_folder(tmp_path / "rows", rows),
    }
    hashes = set()
    for layout, data in layouts.items():
        config = support.write_config(tmp_path / "config.json", folder / "encoder", data, output_dir=layout,
                                      data={"format": layout if layout == "folder" else "auto"}, train={"epochs": 1})
        support.finetune("--config", config, "--quiet")
        run = support.Run(tmp_path / layout)
        assert run.events("start")[0]["data"]["train"]["rows"] == 24
        hashes.add(run.summary()["weights_sha256"])
    assert len(hashes) == 1


def test_pairs(folder, tmp_path):
    rows = [(text, "the " + label, label) for text, label in support.make_rows(40, seed=5)]
    data = support.write_csv(tmp_path / "pairs.csv", rows, ("premise", "hypothesis", "gold"))
    config = support.write_config(tmp_path / "config.json", folder / "encoder", data, train={"epochs": 1},
                                  data={"text": "premise", "text_pair": "hypothesis", "label": "gold"})
    support.finetune("--config", config, "--quiet")
    model = tmp_path / "run" / "model"
    settings = json.loads((model / "finetune.json").read_text())
    named = {key: column for key, column in settings["columns"].items() if column is not None}
    assert named == {"text": "premise", "text_pair": "hypothesis", "label": "gold"}
    # The columns are remembered, and both texts matter.
    answers = support.finetune("predict", "--model", model, "--device", "cpu", "--input", data).lines()
    assert [(a["text"], a["text_pair"]) for a in answers] == [row[:2] for row in rows]
    other = support.write_csv(tmp_path / "other.csv", [(a, "", c) for a, _, c in rows], ("premise", "hypothesis", "gold"))
    assert support.finetune("predict", "--model", model, "--device", "cpu", "--input", other).lines()[0][
        "scores"] != answers[0]["scores"]
    [metrics] = support.finetune("eval", "--model", model, "--device", "cpu", "--data", data).lines()
    assert sum(map(sum, metrics["confusion"])) == len(rows)


def test_several_validation_files_are_named(folder):
    config = support.write_config(folder / "several.json", "encoder", "train.csv", output_dir="several",
                                  data={"validation": ["validation.csv", "test.csv"]}, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    run = support.Run(folder / "several")
    assert {e["split"] for e in run.events("eval")} == {"validation.csv", "test.csv"}
    assert set(run.summary()["metrics"]["validation"]) == {"validation.csv", "test.csv"}


def test_validation_fraction_holds_rows_out(folder):
    config = support.write_config(folder / "fraction.json", "encoder", "train.csv", output_dir="fraction",
                                  data={"validation_fraction": 0.25}, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    data = support.Run(folder / "fraction").events("start")[0]["data"]
    assert (data["train"]["rows"], data["validation"]["rows"]) == (90, 30)


def test_labels_are_in_numeric_order_and_kept(folder, tmp_path):
    """Ten classes named 1 to 10: class 10 comes last, and eval needs no list of them."""
    rows = [(f"the {word}", str(n + 1)) for n, word in enumerate("cat dog red blue paris river house sheep tiger bird".split())]
    data = support.write_csv(tmp_path / "train.csv", rows * 2)
    config = support.write_config(tmp_path / "config.json", folder / "encoder", data, train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    model = tmp_path / "run" / "model"
    assert json.loads((model / "finetune.json").read_text())["labels"] == [str(n) for n in range(1, 11)]
    few = support.write_csv(tmp_path / "few.csv", rows[-2:])
    [metrics] = support.finetune("eval", "--model", model, "--device", "cpu", "--data", few).lines()
    assert np.array(metrics["confusion"])[8:].sum() == 2


def test_random_weights_when_asked_for(folder):
    config = support.write_config(folder / "random.json", "encoder", "train.csv", output_dir="random",
                                  model={"init": "random"}, train={"max_steps": 1})
    result = support.finetune("--config", config)
    assert "model.init is random: no weights are loaded" in result.stderr
    first = support.Run(folder / "random").summary()["weights_sha256"]
    support.finetune("--config", config, "--overwrite", "--quiet")
    assert support.Run(folder / "random").summary()["weights_sha256"] == first
    support.finetune("--config", config, "--overwrite", "--quiet", "--set", "seed=7")
    assert support.Run(folder / "random").summary()["weights_sha256"] != first


def test_overrides(folder):
    config = support.write_config(folder / "set.json", "encoder", "train.csv", output_dir="set")
    support.finetune("train", "--config", config, "--set", "train.max_steps=3", "--set", "optimizer.learning_rate=1e-4",
                     "--output-dir", folder / "elsewhere", "--quiet")
    run = support.Run(folder / "elsewhere")
    assert run.summary()["steps"] == 3 and not (folder / "set").exists()
    assert json.loads((run.path / "config.json").read_text())["optimizer"]["learning_rate"] == 1e-4


def test_checkpoints_kept(folder):
    """The newest two and the best one; accuracy decides, so an early one may be best."""
    config = support.write_config(folder / "keep.json", "encoder", "train.csv", output_dir="keep",
                                  data={"validation": "validation.csv"}, train={"epochs": 4, "max_steps": 40, "eval_every": 10},
                                  checkpoint={"save_every": 10, "keep_last": 2, "metric": "accuracy"},
                                  schedule={"type": "constant", "warmup": 0})
    support.finetune("--config", config, "--quiet")
    run = support.Run(folder / "keep")
    best = run.summary()["best"]["step"]
    assert [int(p.name[5:]) for p in run.checkpoints()] == sorted({30, 40, best})
    assert (run.path / "checkpoints" / "best").resolve().name == f"step-{best:08}"
