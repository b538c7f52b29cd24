"""Every command of the README's section "Your own data", as it stands there, on a small model."""

import json
import os
import pathlib
import subprocess

import pytest
import support

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
MODEL = "google-bert/bert-base-uncased"


def blocks_of(title):
    """The indented blocks of a section, without their indentation."""
    section = README.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    blocks = [[]]
    for line in section.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line[4:])
        elif line.strip():
            blocks.append([])
        elif blocks[-1]:
            blocks[-1].append("")
    return ["\n".join(block).strip() for block in blocks if block]


def use_one_core():
    """A model this small is trained fastest by one thread, above all beside other tests."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A home with a tiny encoder that `hf download` puts into the Hugging Face cache."""
    folder = tmp_path_factory.mktemp("readme")
    words = "film book song meal hotel game wonderful great lovely terrible boring awful".split()
    encoder = support.make_encoder(folder / "encoder", vocab_size=len(support.vocabulary()) + len(words))
    with open(encoder / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("".join(word + "\n" for word in words))
    programs = folder / "bin"
    programs.mkdir()
    (programs / "finetune").symlink_to(support.BINARY)
    snapshot = folder / "hub" / ("models--" + MODEL.replace("/", "--")) / "snapshots" / "1234"
    (programs / "hf").write_text(f'#!/bin/sh\n[ "$*" = "download {MODEL}" ] || exit 1\n'
                                 f'mkdir -p {snapshot} && cp {encoder}/* {snapshot}/\n')
    (programs / "hf").chmod(0o755)
    (folder / "work").mkdir()
    return folder


@pytest.fixture(scope="module")
def session(folder):
    """The blocks of the section, and how a shell fared with each; it stops at the first that fails."""
    path = f"{folder / 'bin'}:{support.environment()['PATH']}"
    environment = support.environment(PATH=path, HF_HUB_CACHE=str(folder / "hub"))
    done = []
    for block in blocks_of("Your own data"):
        if block.startswith("{"):
            continue
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder / "work", env=environment,
                                capture_output=True, text=True, timeout=support.DEADLINE_SECONDS,
                                preexec_fn=use_one_core)
        done.append((block, result))
        assert result.returncode == 0, f"{block}\n{result.stdout}\n{result.stderr}"
    return done


def test_every_command_works(session, folder):
    commands = "\n".join(block for block, _ in session)
    for command in ("init", "predict", "inspect", "eval", "tokenize", "config --print", "config --schema"):
        assert f"finetune {command}" in commands
    for option in ("--dry-run", "--overfit-batch", "--resume auto"):
        assert f"finetune --config mine.json {option}" in commands
    summary = json.loads((folder / "work" / "runs" / "reviews" / "summary.json").read_text())
    assert summary["status"] == "completed"


def test_the_model_answers(session, folder):
    answers = [json.loads(line) for _, result in session for line in result.stdout.splitlines() if '"label"' in line and '"text"' in line]
    assert {answer["text"] for answer in answers} >= {"a boring hotel", "a great meal", "an awful song"}
    for answer in answers:
        if "scores" in answer:
            assert set(answer["scores"]) == {"good", "bad"}


def test_the_config_that_is_shown_is_the_one_that_is_written(session, folder):
    shown = [json.loads(block) for block in blocks_of("Your own data") if block.startswith("{")]
    written = json.loads((folder / "work" / "mine.json").read_text())
    assert len(shown) == 1
    for section, value in shown[0].items():
        assert written[section] == value
