"""Tables of other programs: each command that reads rows answers with the command that converts them."""

import ast
import re
import shlex

import pytest
import support

FILES = {
    "rows.parquet": b"PAR1\x15\x04",
    "rows.arrow": b"\xff\xff\xff\xff\x10\x00",
    "rows.feather": b"ARROW1\x00\x00",
    "my rows.xlsx": b"PK\x03\x04",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(24, seed=1))
    config = support.write_config(folder / "training.json", "encoder", "train.csv", train={"max_steps": 1})
    support.finetune("--config", config)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def check_command(message, name):
    """The command is one that a shell and Python can read, from the file and to one beside it."""
    command = re.search(r"convert it: (.*) \(pip install", message)[1]
    program, option, code, source, target = shlex.split(command)
    assert (program, option, source) == ("python3", "-c", name)
    assert target.rsplit(".", 1)[0] == name.rsplit(".", 1)[0] and target.endswith((".jsonl", ".csv"))
    ast.parse(code)
    assert code.count("sys.argv") == 2


@pytest.mark.parametrize("name", FILES)
def test_every_command_answers_with_the_conversion(name, folder):
    for arguments in (["--config", "training.json", "--overwrite", "--set", f"data.train={name}"],
                      ["--config", "training.json", "--overwrite", "--set", f"data.validation={name}"],
                      ["eval", "--model", "run/model", "--data", name],
                      ["predict", "--model", "run/model", "--input", name],
                      ["init", name, "--model", "encoder"],
                      ["inspect", name]):
        result = support.refused(3, *arguments, says=["expected text", "convert it: python3 -c"], cwd=folder)
        message = next(line for line in result.stderr.splitlines() if "convert it" in line)
        check_command(message, name if "data." not in arguments[-1] else str(folder / name))
