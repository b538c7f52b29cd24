"""`finetune inspect` on data files and on weights, with the real binary."""

import json

import pytest
import support


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    support.make_encoder(folder / "encoder")
    rows = support.make_rows(80, seed=1)
    rows += [rows[0], (rows[1][0], "animals"), (rows[1][0], "places"), ("the cat", "Animals"), ("a dog", "once")]
    support.write_csv(folder / "train.csv", rows)
    support.write_csv(folder / "test.csv", [*support.make_rows(20, seed=2), rows[3], ("the house", "unheard")])
    return folder


def inspect(folder, *arguments):
    return json.loads(support.finetune("inspect", *arguments, "--json", cwd=folder).stdout)


def test_numbers(folder):
    report = inspect(folder, "train.csv", "--model", "encoder")
    split = report["splits"]["train.csv"]
    assert split["rows"] == 85
    assert sum(split["labels"]["counts"].values()) == 85 and split["labels"]["counts"]["once"] == 1
    assert split["duplicates"]["repeated"] >= 3 and split["duplicates"]["conflicting"] >= 3
    lengths = split["lengths"]
    assert lengths["unit"] == "tokens" and set(lengths["longer_than"]) == {"64", "128", "256", "512"}
    warnings = "\n".join(split["warnings"])
    assert "differ in case, blanks or marks alone" in warnings and "'once'" in warnings


def test_lengths_are_the_tokenizers(folder):
    report = inspect(folder, "train.csv", "--model", "encoder", "--samples", "85")
    split = report["splits"]["train.csv"]
    lengths = sorted(len(sample["tokens"]) for sample in split["samples"])
    assert len(lengths) == 85 and split["lengths"]["longest"] == lengths[-1]
    assert split["lengths"]["median"] == lengths[42] and split["lengths"]["mean"] == pytest.approx(sum(lengths) / 85)
    lines = support.finetune("tokenize", "--model", "encoder", stdin=split["samples"][0]["text"] + "\n", cwd=folder).lines()
    assert lines[0]["tokens"] == split["samples"][0]["tokens"]


def test_leaks_between_files_and_of_a_config(folder):
    report = inspect(folder, "train.csv", "test.csv")
    assert [(leak["from"], leak["into"]) for leak in report["leaks"]] == [("train.csv", "test.csv")]
    assert report["leaks"][0]["rows"] >= 1 and report["leaks"][0]["examples"]
    assert "'unheard'" in report["warnings"][0]
    support.write_config(folder / "job.json", "encoder", "train.csv", data={"test": "test.csv", "max_length": 10})
    by_config = inspect(folder, "--config", "job.json")
    assert set(by_config["splits"]) == {"train", "test"} and by_config["leaks"][0]["rows"] == report["leaks"][0]["rows"]
    assert "10" in by_config["splits"]["train"]["lengths"]["longer_than"]


def test_text_for_people(folder):
    result = support.finetune("inspect", "train.csv", "test.csv", "--model", "encoder", cwd=folder)
    for words in ("train.csv: 85 rows", "truncated at max_length 64: ", "labels: ", "duplicates: ", "leak: ", "[CLS]"):
        assert words in result.stdout, result


def test_standard_input_is_no_file_to_guess_from(folder):
    support.refused(3, "inspect", "nothing.csv", says="no such file", cwd=folder)
    support.refused(2, "inspect", says="expected a path", cwd=folder)


def test_weights_and_checkpoints(folder):
    weights = inspect(folder, "encoder/model.safetensors")
    assert weights["kind"] == "safetensors" and any(t["name"].endswith("word_embeddings.weight") for t in weights["tensors"])
    assert weights["elements"] * 4 == weights["bytes"]
    model = inspect(folder, "encoder")
    assert model["kind"] == "model directory" and model["model_type"] == "bert"
    support.write_config(folder / "run.json", "encoder", "train.csv", output_dir="run", train={"max_steps": 3})
    support.finetune("--config", "run.json", cwd=folder)
    run = inspect(folder, "run")
    assert run["kind"] == "checkpoint" and run["step"] == 3
    support.finetune("convert", "run", "out.pth", cwd=folder)
    python = inspect(folder, "out.pth")
    assert python["kind"] == "torch.save" and python["weights_key"] == "net" and len(python["tensors"]) == len(run["tensors"])
    (folder / "broken.safetensors").write_bytes(b"no")
    support.refused(4, "inspect", "broken.safetensors", says="broken.safetensors", cwd=folder)
    assert "word_embeddings" in support.finetune("inspect", "encoder", cwd=folder).stdout
