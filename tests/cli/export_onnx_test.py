"""scripts/export-onnx on a run's model: what it writes gives the program's own answers."""

import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import support

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "export-onnx"


def export(*arguments, code=0):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          timeout=support.DEADLINE_SECONDS, env=support.environment())
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(24, seed=1))
    for name, pooling in (("run", "pooler"), ("mean", "mean")):
        config = support.write_config(folder / f"{name}.json", "encoder", "train.csv", output_dir=name, model={"pooling": pooling},
                                      train={"epochs": 1})
        support.finetune("--config", config, "--quiet")
    return folder


def test_the_exported_model_answers_as_the_program_does(folder):
    result = export(folder / "run" / "model", folder / "new" / "model.onnx")
    assert "input_ids, attention_mask, token_type_ids -> logits" in result.stdout
    assert [path.name for path in (folder / "new").iterdir()] == ["model.onnx"]
    support.finetune("predict", "--model", folder / "run" / "model", "--device", "cpu", "--input", folder / "train.csv",
                     "--output", folder / "answers", "--logits", folder / "logits.npy")
    texts = "".join(text + "\n" for text, _ in support.make_rows(24, seed=1))
    session = onnxruntime.InferenceSession(str(folder / "new" / "model.onnx"), providers=["CPUExecutionProvider"])
    for row, expected in zip(support.finetune("tokenize", "--model", folder / "run" / "model", stdin=texts).lines(),
                             np.load(folder / "logits.npy"), strict=True):
        ids = np.array([row["input_ids"]])
        logits = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
        assert np.abs(logits[0][0] - expected).max() < 1e-5


def test_nothing_is_kept_where_answers_differ(folder):
    assert "nothing is kept" in export(folder / "run" / "model", folder / "none.onnx", "--tolerance", "0", code=1).stderr
    assert not list(folder.glob("none*")) and not list(folder.glob(".export-*"))


@pytest.mark.parametrize("model, found", [("nowhere", "RUN/model"), ("mean/model", "model.pooling")])
def test_what_cannot_be_exported(folder, model, found):
    assert found in export(folder / model, folder / "none.onnx", code=2).stderr
    assert not (folder / "none.onnx").exists()
