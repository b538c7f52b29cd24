"""Bad input: a clear error with place and remedy, the right exit code, no stack trace, nothing lost."""

import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
import support
from safetensors.numpy import load_file, save_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(24, seed=1))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    config = support.write_config(folder / "model.json", "encoder", "train.csv", output_dir="trained",
                                  train={"epochs": 1})
    support.finetune("--config", config, "--quiet")
    return folder / "trained" / "model"


def config_for(tmp_path, folder, file="train.csv", encoder="encoder", **changes):
    return support.write_config(tmp_path / "config.json", folder / encoder, folder / file, **changes)


# --- command line and config ---


@pytest.mark.parametrize("arguments, words", [
    (["trian", "--config", "x.json"], "unknown word 'trian'; did you mean 'train'?"),
    (["--confg", "x.json"], "unknown flag '--confg'; did you mean '--config'?"),
    (["predict", "--model", "x", "--batch", "3"], "unknown flag '--batch'; known here: "),
    (["train", "--config", "x.json", "y.json"], "unknown word 'y.json'"),
    (["eval", "--model", "x"], "--data is required"),
    (["train"], "--config is required"),
    (["--quiet"], "subcommand is required"),
    ([], "subcommand is required"),
    (["predict", "--model", "x", "--max-length", "0"], "--max-length"),
    (["predict", "--model", "x", "--encoding", "ascii"], "latin-1"),
], ids=["subcommand", "flag", "other flag", "word", "missing flag", "no config", "nothing", "nothing at all", "bad value",
        "bad choice"])
def test_usage(arguments, words):
    support.refused(2, *arguments, says=words)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["predict", "--help"]])
def test_help_and_version_go_to_stdout(arguments):
    result = support.finetune(*arguments)
    assert "finetune" in result.stdout or "--config" in result.stdout or "--model" in result.stdout
    assert result.stderr == ""


def test_five_mistakes_five_messages(tmp_path, folder):
    config = config_for(tmp_path, folder, device="gpu", train={"batch_size": -1, "epoch": 2},
                        optimizer={"learning_rate": "fast"}, schedule={"type": "lineal"})
    result = support.refused(2, "--config", config, says=[
        "config.json", "/device", "/train/batch_size", "/train/epoch", "epochs", "/optimizer/learning_rate",
        "/schedule/type", "linear"])
    assert len([line for line in result.stderr.splitlines() if "config.json" in line and ": /" in line]) == 5, result
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content, words", [
    (None, "config.json"),
    ("{\"train\": }", "config.json"),
    ("[1]", "object"),
], ids=["missing", "no JSON", "a list"])
def test_unreadable_config(tmp_path, content, words):
    config = tmp_path / "config.json"
    if content is not None:
        config.write_text(content)
    support.refused(2, "--config", config, says=words)


def test_output_dir_that_cannot_be_made(tmp_path, folder):
    (tmp_path / "file").write_text("")
    config = config_for(tmp_path, folder, output_dir="file/run")
    support.refused(2, "--config", config, says=["file/run cannot be created", "choose a folder"])


def test_a_folder_in_use_by_another_run(tmp_path, folder):
    config = config_for(tmp_path, folder, train={"epochs": 100000})
    training = support.Training(tmp_path / "run", "--config", config, "--quiet")
    try:
        training.wait_for_step(2)
        for more in ([], ["--overwrite"], ["--resume", "auto"]):
            support.refused(2, "--config", config, *more, says=[
                "is in use by another run", f"process {training.process.pid}", "another output_dir"])
    finally:
        ended = training.stop()
    assert ended.code == 143, ended
    assert support.Run(tmp_path / "run").checkpoints(), "the other run is unharmed"


# --- data ---


def refuse_training(tmp_path, folder, code, says, file="train.csv", **changes):
    config = config_for(tmp_path, folder, file, **changes)
    result = support.refused(code, "--config", config, says=says)
    assert not list(tmp_path.glob("run/checkpoints/*"))
    return result


def test_missing_file(tmp_path, folder):
    refuse_training(tmp_path, folder, 3, ["nowhere.csv", "no such file", "check the path"], file="nowhere.csv")


def test_wrong_column(tmp_path, folder):
    refuse_training(tmp_path, folder, 3, ["train.csv", "'labels'", "'text'", "'label'"], data={"label": "labels"})


@pytest.mark.parametrize("content", [b"", b"text,label\n"], ids=["empty", "header only"])
def test_no_rows(tmp_path, folder, content):
    (tmp_path / "none.csv").write_bytes(content)
    refuse_training(tmp_path, folder, 3, ["none.csv", "rows"], file=tmp_path / "none.csv")


def test_one_class_only(tmp_path, folder):
    data = support.write_csv(tmp_path / "one.csv", [("cat", "a"), ("dog", "a")])
    refuse_training(tmp_path, folder, 3, ["one.csv", "one class only ('a')"], file=data)


def test_a_row_too_short(tmp_path, folder):
    (tmp_path / "short.csv").write_text("text,label\ncat,a\n\"dog\ndog\",b\nred\n")
    refuse_training(tmp_path, folder, 3, ["short.csv:5", "fields"], file=tmp_path / "short.csv")


def test_not_utf8(tmp_path, folder):
    (tmp_path / "latin.csv").write_bytes("text,label\ncat,a\ncaf\u00e9,b\n".encode("latin-1"))
    refuse_training(tmp_path, folder, 3, ["latin.csv:3", "byte offset 20", "0xe9", "data.encoding", "latin-1"],
                    file=tmp_path / "latin.csv")
    for encoding, words in (("latin-1", None), ("utf-8-replace", "1 rows held bytes that are not UTF-8")):
        config = config_for(tmp_path, folder, tmp_path / "latin.csv", data={"encoding": encoding},
                            train={"max_steps": 1})
        result = support.finetune("--config", config, "--overwrite")
        assert words is None or words in result.stderr, result


def test_a_label_that_the_list_lacks(tmp_path, folder):
    refuse_training(tmp_path, folder, 3, ["train.csv:", "is not known", "task.labels"],
                    task={"labels": ["animals", "colours"]})


def test_validation_label_that_training_never_saw(tmp_path, folder):
    data = support.write_csv(tmp_path / "validation.csv", [("cat", "animals"), ("monday", "days")])
    refuse_training(tmp_path, folder, 3, ["validation.csv:3", "'days'", "animals"], data={"validation": str(data)})


def test_eval_label_that_training_never_saw(tmp_path, model):
    data = support.write_csv(tmp_path / "test.csv", [("cat", "animals"), ("a\nb", "places"), ("red", "colour")])
    support.refused(3, "eval", "--model", model, "--device", "cpu", "--data", data,
                    says=["test.csv:5", "'colour'", "'animals'", "'colours'", "'places'"])


def test_eval_without_a_label_column(tmp_path, model):
    data = support.write_csv(tmp_path / "test.csv", [("cat",)], ["text"])
    support.refused(3, "eval", "--model", model, "--device", "cpu", "--data", data, says=["test.csv", "'label'"])


def test_predict_without_the_text_column(tmp_path, model):
    data = support.write_csv(tmp_path / "rows.csv", [("1", "cat")], ["id", "body"])
    support.refused(3, "predict", "--model", model, "--device", "cpu", "--input", data,
                    says=["rows.csv", "'text'", "'body'"])
    support.refused(3, "predict", "--model", model, "--device", "cpu", "--input", tmp_path / "nowhere.txt",
                    says="nowhere.txt")


def test_too_few_rows_for_one_update(tmp_path, folder):
    config = config_for(tmp_path, folder)
    support.refused(3, "--config", config, "--set", "train.batch_size=32", "--set", "train.drop_last=true",
                    says=["24 rows", "batch_size is 32", "drop_last", "lower the batch size"])


def test_long_texts_are_clamped_and_counted(tmp_path, folder):
    rows = [("cat " * 300, "animals"), ("red", "colours"), ("blue " * 100, "colours")]
    data = support.write_csv(tmp_path / "long.csv", rows)
    config = config_for(tmp_path, folder, data, data={"max_length": 512}, train={"max_steps": 1})
    result = support.finetune("--config", config)
    assert "data.max_length 512 is clamped to the model's 64 positions" in result.stderr
    assert "2 of 3 rows are longer than 64 tokens" in result.stderr
    counts = support.Run(tmp_path / "run").events("start")[0]["data"]["train"]
    assert counts == {"rows": 3, "tokens": 64 + 3 + 64, "truncated": 2}


def test_long_texts_are_refused_where_truncation_is_off(tmp_path, folder):
    data = support.write_csv(tmp_path / "long.csv", [("red", "colours"), ("cat " * 300, "animals")])
    refuse_training(tmp_path, folder, 3, ["long.csv:3", "302", "64"], file=data,
                    data={"max_length": 512, "truncation": "none"})


# --- model files ---


def changed_encoder(tmp_path, folder, config=None, weights=None):
    directory = tmp_path / "encoder"
    shutil.copytree(folder / "encoder", directory)
    if config:
        support.write_json(directory / "config.json", {**json.loads((directory / "config.json").read_text()), **config})
    if weights:
        save_file(weights(load_file(directory / "model.safetensors")), directory / "model.safetensors")
    return directory


def refuse_model(tmp_path, folder, encoder, says):
    return refuse_training(tmp_path, folder, 4, says, model={"path": str(encoder)})


def test_no_model(tmp_path, folder):
    result = support.finetune("--config", config_for(tmp_path, folder, encoder="nowhere"), code=4)
    assert "nowhere" in result.stderr


def test_truncated_weights(tmp_path, folder):
    encoder = changed_encoder(tmp_path, folder)
    file = encoder / "model.safetensors"
    os.truncate(file, file.stat().st_size - 1000)
    refuse_model(tmp_path, folder, encoder, ["model.safetensors", "bytes"])
    os.truncate(file, 3)
    refuse_model(tmp_path, folder, encoder, ["model.safetensors"])


def test_wrong_shapes_are_all_named(tmp_path, folder):
    encoder = changed_encoder(tmp_path, folder, {"intermediate_size": 48})
    refuse_model(tmp_path, folder, encoder, [
        "bert.encoder.layer.0.intermediate.dense.weight", "[64, 32]", "[48, 32]",
        "bert.encoder.layer.1.output.dense.weight", "[32, 64]", "[32, 48]", "do not belong together"])


def test_a_head_for_another_number_of_labels(tmp_path, folder):
    def with_head(weights):
        return {**weights, "classifier.weight": np.zeros((5, 32), np.float32), "classifier.bias": np.zeros(5, np.float32)}

    refuse_model(tmp_path, folder, changed_encoder(tmp_path, folder, weights=with_head),
                 ["classifier.weight", "[5, 32]", "[3, 32]", "another number of labels", "task.labels"])


def test_an_encoder_that_matches_nothing(tmp_path, folder):
    def renamed(weights):
        return {"model." + name.replace("bert.", "trunk."): value for name, value in weights.items()}

    refuse_model(tmp_path, folder, changed_encoder(tmp_path, folder, weights=renamed),
                 ["trained from random weights", "model.trunk.embeddings", "bert.embeddings"])


def test_a_vocabulary_too_large(tmp_path, folder):
    encoder = changed_encoder(tmp_path, folder)
    with open(encoder / "vocab.txt", "a") as file:
        file.write("surplus\n")
    size = len(support.vocabulary())
    refuse_model(tmp_path, folder, encoder, [f"{size + 1} ids", f"vocab_size is {size}", "do not belong together"])


def test_no_tokenizer(tmp_path, folder):
    encoder = changed_encoder(tmp_path, folder)
    (encoder / "vocab.txt").unlink()
    refuse_model(tmp_path, folder, encoder, ["no tokenizer files", "tokenizer.json, vocab.txt"])


@pytest.mark.parametrize("config, words", [
    ({"model_type": "bret"}, ["model_type 'bret'", "did you mean 'bert'?"]),
    ({"hidden_size": 0}, ["hidden_size", "found 0", "positive integer"]),
    ({"vocab_size": "many"}, ["vocab_size", "\"many\"", "positive integer"]),
    ({"layer_norm_eps": []}, ["layer_norm_eps", "[]", "a number"]),
    ({"hidden_act": 3}, ["hidden_act", "found 3", "a string"]),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_bad_model_config(tmp_path, folder, config, words):
    refuse_model(tmp_path, folder, changed_encoder(tmp_path, folder, config), ["config.json", *words])


def test_predict_with_an_encoder_that_has_no_head(folder):
    support.refused(4, "predict", "--model", folder / "encoder", "--device", "cpu", stdin="cat\n",
                    says=["names the labels", "Train one with"])


def test_predict_with_a_headless_model(tmp_path, folder):
    encoder = changed_encoder(tmp_path, folder, {"id2label": {"0": "a", "1": "b"}})
    support.refused(4, "predict", "--model", encoder, "--device", "cpu", stdin="cat\n",
                    says=["the weights lack classifier.weight, classifier.bias", "not a whole classifier"])


def test_broken_settings_file(tmp_path, model):
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "finetune.json").write_text("{\"format\": 1}")
    support.refused(4, "predict", "--model", tmp_path / "model", "--device", "cpu", stdin="cat\n",
                    says=["finetune.json", "restore the file"])


# --- while it runs ---


def test_divergence_by_a_huge_rate(tmp_path, folder):
    config = config_for(tmp_path, folder, optimizer={"learning_rate": 1e30}, schedule={"type": "constant", "warmup": 0})
    support.refused(6, "--config", config, says=["not finite", "learning_rate", "train.on_nonfinite"])
    run = support.Run(tmp_path / "run")
    assert run.summary()["status"] == "failed"
    assert run.events("train")[-1]["skipped_updates"] > 0
    assert not run.checkpoints() and not (run.path / "model").exists()


def test_weights_that_are_not_numbers(tmp_path, folder):
    def poisoned(weights):
        weights["bert.pooler.dense.weight"][0, 0] = np.nan
        return weights

    encoder = changed_encoder(tmp_path, folder, weights=poisoned)
    config = config_for(tmp_path, folder, encoder=encoder, train={"max_steps": 2})
    support.refused(6, "--config", config, says="not finite")
    # Skipping instead leaves the weights as they were.
    result = support.finetune("--config", config, "--overwrite", "--set", "train.on_nonfinite=skip")
    assert "had gradients that are not finite and were skipped" in result.stderr
    before, after = load_file(encoder / "model.safetensors"), support.Run(tmp_path / "run").weights()
    for name, values in before.items():
        assert np.array_equal(after[name], values, equal_nan=True), name


def test_cuda_without_a_driver(tmp_path, folder):
    config = config_for(tmp_path, folder, device="cuda")
    support.refused(5, "--config", config, says=["device 'cuda' cannot be used", "NVIDIA driver", "choose device cpu"])


def test_auto_falls_back_to_the_cpu_and_says_why(tmp_path, folder):
    config = config_for(tmp_path, folder, device="auto", train={"max_steps": 1})
    result = support.finetune("--config", config)
    assert "no usable GPU:" in result.stderr and "NVIDIA driver" in result.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 500 KiB, or None where this process may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", disk], capture_output=True).returncode == 0
    yield disk if mounted else None
    if mounted:
        subprocess.run(["umount", "--lazy", disk], check=True)


def limit_file_size():
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


def test_no_space_left(tmp_path, folder, small_disk):
    """A checkpoint of this model takes some 300 KB: the first fits, the second one beside it does not."""
    config = config_for(tmp_path, folder, output_dir=str(small_disk or tmp_path / "run"),
                        train={"epochs": 100, "log_every": 100}, checkpoint={"save_every": 3, "keep_last": 5})
    if small_disk:
        result = support.refused(4, "--config", config, says=[
            "cannot save checkpoint", "No space left", "bytes are needed", "are free", "--resume auto"])
        run = support.Run(small_disk)
        assert [p.name for p in run.checkpoints()] == ["step-00000003"]
        assert not list(small_disk.rglob("*.tmp*")), result
        # With space again the run goes on from the checkpoint that was not harmed.
        subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
        support.finetune("--config", config, "--resume", "auto", "--set", "train.max_steps=12", "--quiet")
        assert [e["step"] for e in run.events("resume")] == [3]
    else:
        support.refused(4, "--config", config, preexec_fn=limit_file_size, restore_signals=False,
                        says=["cannot save checkpoint", "File too large", "bytes are needed", "--resume auto"])
        assert not support.Run(tmp_path / "run").checkpoints()


def test_predictions_to_a_full_disk(model):
    """A full disk must not pass for success."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([support.BINARY, "predict", "--model", model, "--device", "cpu"], input=b"cat\n",
                              stdout=full, stderr=subprocess.PIPE, env=support.environment())
    assert done.returncode == 2 and b"No space left" in done.stderr
    support.refused(2, "predict", "--model", model, "--device", "cpu", "--output", "/dev/full", stdin="cat\n",
                    says="No space left")


def test_a_second_signal_leaves_at_once(tmp_path, folder):
    """A run that is busy reading its input is stopped by the first signal already, or by the second one."""
    rows = support.make_rows(60000, seed=6, longest=40)
    data = support.write_csv(tmp_path / "large.csv", rows)
    config = config_for(tmp_path, folder, data)
    training = support.Training(tmp_path / "run", "--config", config)
    training.wait_for(lambda: (tmp_path / "run" / ".lock").exists())
    training.send(signal.SIGINT)
    training.send(signal.SIGINT)
    ended = training.end()
    assert ended.code == 130, ended
    assert not support.Run(tmp_path / "run").checkpoints()
