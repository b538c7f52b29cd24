"""Every config key that the README names exists, and so does every argument of Trainer's that it compares with."""

import dataclasses
import json
import pathlib
import re

import support
import transformers

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
SECTIONS = ("task", "model", "data", "train", "optimizer", "schedule", "checkpoint", "logging")
# Arguments of example scripts and of other versions, and what is no argument.
ELSEWHERE = {"max_train_samples", "overwrite_output_dir"}


def keys_of(schema, prefix=""):
    for name, value in schema.get("properties", {}).items():
        yield prefix + name
        yield from keys_of(value, prefix + name + ".")


def test_every_key_exists():
    known = set(keys_of(json.loads(support.finetune("config", "--schema").stdout)))
    text = README.read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{'|'.join(SECTIONS)})[.][a-z_]+)(?=[`:=])", text))
    assert len(named) > 40
    assert sorted(named - known) == []


def test_every_argument_of_trainer_exists():
    section = README.read_text(encoding="utf-8").split("## Coming from Hugging Face Trainer\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)[`=]", row)}
    known = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    assert len(named) > 30
    assert sorted(named - known - ELSEWHERE) == []
