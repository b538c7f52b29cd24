"""The JSON Schema that `finetune config --schema` prints, against the program's own reading of configs."""

import copy
import json
import os
import pathlib
import pty
import re
import subprocess

import pytest
from jsonschema import Draft202012Validator

BINARY = os.environ["FINETUNE_BINARY"]
CONFIGS = sorted((pathlib.Path(__file__).resolve().parents[2] / "configs").glob("*.json"))
MINIMAL = {"model": {"path": "./encoder"}, "data": {"train": "train.csv"}}

# Every key is given each of these; the schema and the program must agree on which it takes.
VALUES = [
    None, True, False, -1, 0, 1, 2, 3, 0.5, 1.0, 1.5, 32.0, -0.25, 1e18, 1e30, 1024, 1025, 2**53 + 1, 2**63, 2**64,
    "", "x", "auto", "never", "1 epoch", "0.5 epochs", "200 steps", "0.5 steps", "cuda:1", "cuda:", "sim:1", "sim:x", ";", ";;",
    [], ["a"], ["a", "b"], ["a", "a"], ["a", 1], [""], [0.9, 0.999], [0.9, 1], [0.9], {}, {"x": 1},
]


def run(*arguments, cwd=None):
    return subprocess.run([BINARY, "config", *map(str, arguments)], cwd=cwd, capture_output=True, text=True)


def without_comments(text):
    """JSON without `//` and `/* */`; strings are left alone."""
    token = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return token.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)


@pytest.fixture(scope="module")
def schema():
    printed = run("--schema")
    assert printed.returncode == 0, printed.stderr
    return json.loads(printed.stdout)


@pytest.fixture(scope="module")
def validator(schema):
    return Draft202012Validator(schema)


def values_of(section, path=()):
    """(path, schema) of every key that is no section."""
    for name, schema in section["properties"].items():
        if path == () and name in ("$schema", "extends"):
            continue
        if "properties" in schema and "default" not in schema:
            yield from values_of(schema, path + (name,))
        else:
            yield path + (name,), schema


def with_value(config, path, value):
    changed = copy.deepcopy(config)
    section = changed
    for name in path[:-1]:
        section = section.setdefault(name, {})
    section[path[-1]] = value
    return changed


class Program:
    """What the program says of a config."""

    def __init__(self, folder):
        self.folder = folder
        # Bare words are names of folders before they are names of models on the hub.
        for name in VALUES:
            if isinstance(name, str) and re.fullmatch("[a-z]+", name):
                (folder / name).mkdir()

    def problems(self, config):
        """The pointers of refused keys; the exit code goes with them."""
        (self.folder / "bert.json").write_text(json.dumps(config))
        result = run("--validate", "bert.json", cwd=self.folder)
        if result.returncode == 0:
            assert result.stdout == "bert.json: valid\n"
            return set()
        assert result.returncode == 2 and result.stdout == "", result
        lines = result.stderr.strip().splitlines()
        pointers = [re.search(r"bert\.json: (\S+): ", line) for line in lines]
        assert lines and all(pointers), result.stderr
        return {match[1] for match in pointers}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return Program(tmp_path_factory.mktemp("config"))


def test_the_schema_is_a_schema(schema):
    Draft202012Validator.check_schema(schema)


def test_defaults_satisfy_their_own_schema(schema):
    for path, value in values_of(schema):
        if "default" in value:
            Draft202012Validator(value).validate(value["default"])
        else:
            assert path in [("model", "path"), ("data", "train")]


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_the_configs_of_the_project_are_valid(file, validator):
    validator.validate(json.loads(without_comments(file.read_text())))
    result = run("--validate", file)
    assert (result.returncode, result.stdout) == (0, f"{file}: valid\n"), result.stderr


def test_what_print_writes_is_valid(validator, program):
    (program.folder / "bert.json").write_text(json.dumps(MINIMAL))
    printed = run("--print", "bert.json", "--set", "train.batch_size=8", cwd=program.folder)
    assert printed.returncode == 0, printed.stderr
    config = json.loads(printed.stdout)
    assert config["train"]["batch_size"] == 8
    assert config["data"]["train"] == [str(program.folder / "train.csv")]
    validator.validate(config)
    assert program.problems(config) == set()


def test_what_print_writes_with_comments_is_the_same_config(validator, program):
    (program.folder / "bert.json").write_text(json.dumps(MINIMAL))
    printed = run("--print", "bert.json", "--comments", cwd=program.folder)
    assert printed.returncode == 0, printed.stderr
    plain = json.loads(run("--print", "bert.json", cwd=program.folder).stdout)
    assert json.loads(without_comments(printed.stdout)) == plain
    assert printed.stdout.count("//") > 40
    validator.validate(plain)
    (program.folder / "commented.json").write_text(printed.stdout)
    assert json.loads(run("--print", "commented.json", cwd=program.folder).stdout) == plain


def test_print_comments_for_people_and_not_for_programs(program):
    """On a terminal each key has its comment; `--no-comments` takes them off."""
    (program.folder / "bert.json").write_text(json.dumps(MINIMAL))

    def on_a_terminal(*arguments):
        main, terminal = pty.openpty()
        process = subprocess.Popen([BINARY, "config", "--print", "bert.json", *arguments], cwd=program.folder, stdout=terminal)
        os.close(terminal)
        text = b""
        try:
            while block := os.read(main, 65536):
                text += block
        except OSError:  # the other end is closed
            pass
        os.close(main)
        assert process.wait() == 0
        return text.decode()
    assert "// Rows of an update" in on_a_terminal()
    assert "//" not in on_a_terminal("--no-comments").replace("://", "")


# Keys that mean something for one task only.
TASK_OF = {
    **dict.fromkeys(("/data/tokens", "/data/fields", "/data/positions"), "token_classification"),
    **dict.fromkeys(("/task/pos_weight", "/task/threshold"), "multi_label_classification"),
}


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_schema_and_program_take_the_same_values(value, schema, validator, program):
    paths = [path for path, _ in values_of(schema)]
    assert len(paths) > 40
    pointers = {"/" + "/".join(path): path for path in paths}
    config = copy.deepcopy(MINIMAL)
    for path in paths:
        config = with_value(config, path, value)
    refused_by_schema = {
        "/" + "/".join(map(str, list(error.absolute_path)[:2])) for error in validator.iter_errors(config)
        if error.absolute_path
    }
    refused_by_schema = {p if p in pointers else p.rsplit("/", 1)[0] for p in refused_by_schema}
    refused = {p if p in pointers else p.rsplit("/", 1)[0] for p in program.problems(config)}
    for pointer in refused ^ refused_by_schema:
        # Values that are wrong only beside each other are no matter of the schema: alone, they must pass or fail in both.
        alone = with_value(MINIMAL, pointers[pointer], value)
        if pointer in TASK_OF:
            alone = with_value(alone, ("task", "type"), TASK_OF[pointer])
        assert bool(program.problems(alone)) == (not validator.is_valid(alone)), pointer


def test_unknown_keys_are_refused_in_every_section(schema, validator, program):
    sections = {()} | {path[:-1] for path, _ in values_of(schema)}
    assert len(sections) == 9
    for section in sections:
        config = with_value(MINIMAL, section + ("unheard_of",), 1)
        assert not validator.is_valid(config), section
        assert program.problems(config) == {"/" + "/".join(section + ("unheard_of",))}


def test_sections_are_objects_or_null(schema, validator, program):
    sections = {path[:1] for path, _ in values_of(schema) if len(path) > 1}
    for section in sections - {("model",), ("data",)}:
        for value in ([], "x", 1, True):
            config = with_value(MINIMAL, section, value)
            assert not validator.is_valid(config)
            assert program.problems(config) == {"/" + section[0]}
        config = with_value(MINIMAL, section, None)
        assert validator.is_valid(config) and program.problems(config) == set()


@pytest.mark.parametrize("path", [("model",), ("data",), ("model", "path"), ("data", "train")], ids="/".join)
def test_required_keys(path, validator, program):
    config = copy.deepcopy(MINIMAL)
    section = config
    for name in path[:-1]:
        section = section[name]
    del section[path[-1]]
    assert not validator.is_valid(config)
    assert len(program.problems(config)) == 1
    # A base file may give it.
    (program.folder / "base.json").write_text(json.dumps(MINIMAL))
    config["extends"] = "base.json"
    assert validator.is_valid(config)
    assert program.problems(config) == set()


def test_overrides_are_checked_too(program):
    (program.folder / "bert.json").write_text(json.dumps(MINIMAL))
    result = run("--validate", "bert.json", "--set", "optimizer.lerning_rate=1", "--set", "seed=-1", cwd=program.folder)
    assert result.returncode == 2
    assert "--set optimizer.lerning_rate: unknown key; did you mean optimizer.learning_rate?" in result.stderr
    assert "--set seed: found -1; expected an integer of at least 0" in result.stderr
