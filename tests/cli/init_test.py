"""`finetune init` on data of every kind, with the real binary: what it writes is valid, and runs as it is."""

import json

import pytest
import support


def sentences(count, seed=1):
    return support.make_rows(count, seed=seed, longest=6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return support.make_encoder(tmp_path_factory.mktemp("model") / "encoder")


def init(folder, data, *arguments, **options):
    return support.finetune("init", data, *arguments, cwd=folder, **options)


def config_of(folder, name="job.json"):
    return json.loads((folder / name).read_text())


def trained(folder, name="job.json"):
    """Two steps of the config as it was written."""
    support.finetune("--config", name, "--set", "train.max_steps=2", "--set", "device=cpu", "--set", "threads=1", cwd=folder)
    output_dir = folder / config_of(folder, name)["output_dir"]
    return support.Run(output_dir).summary()


def test_classes(tmp_path, model):
    support.write_csv(tmp_path / "news.csv", [(i, *row) for i, row in enumerate(sentences(120))], ("id", "text", "label"))
    result = init(tmp_path, "news.csv", "--model", model)
    config = config_of(tmp_path)
    assert result.stdout == ""
    assert config["task"] == {"type": "sequence_classification", "labels": sorted(support.TOPICS)}
    assert config["data"] == {"train": "news.csv", "text": "text", "label": "label", "max_length": 32, "validation_fraction": 0.2}
    assert config["output_dir"] == "runs/news" and config["model"]["path"] == str(model)
    for reason in ("data.label: column 'label'", "task.type: sequence_classification, because", "data.max_length: 32, because",
                   "data.validation_fraction: 0.2, because", "checkpoint.metric: accuracy, because", "written: job.json",
                   "finetune --config job.json --dry-run"):
        assert reason in result.stderr, result
    summary = trained(tmp_path)
    assert summary["status"] == "completed" and "validation" in summary["metrics"]


def test_files_beside_it_are_taken(tmp_path, model):
    for name, count in (("train", 60), ("dev", 30), ("test", 30)):
        support.write_csv(tmp_path / f"{name}.csv", sentences(count, seed=count + len(name)))
    init(tmp_path, "train.csv", "--model", model)
    data = config_of(tmp_path)["data"]
    assert (data["validation"], data["test"]) == ("dev.csv", "test.csv") and "validation_fraction" not in data
    assert config_of(tmp_path)["output_dir"] == f"runs/{tmp_path.name}"
    assert set(trained(tmp_path)["metrics"]) == {"validation", "test"}


def test_a_file_beside_it_that_does_not_fit_is_said(tmp_path, model):
    support.write_csv(tmp_path / "train.csv", sentences(60))
    support.write_csv(tmp_path / "test.csv", [(text, "-1") for text, _ in sentences(20)])
    (tmp_path / "dev.csv").write_text("sentence\njust texts\n")
    result = init(tmp_path, "train.csv", "--model", model)
    assert "test" not in config_of(tmp_path)["data"] and "validation" not in config_of(tmp_path)["data"]
    assert "unsure: test.csv is not used for data.test: most of its labels are none of the data's" in result.stderr
    assert "unsure: dev.csv is not used for data.validation" in result.stderr
    trained(tmp_path)


KINDS = {
    "pairs.tsv": (
        "premise\thypothesis\tlabel\n" + "".join(f"the cat {i}\tthe dog {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(40)),
        {"type": "sequence_classification", "labels": ["no", "yes"]}, {"text": "premise", "text_pair": "hypothesis"}),
    "scores.csv": (
        "text,score\n" + "".join(f"the cat is {i} very black,{i * 0.37:.2f}\n" for i in range(40)),
        {"type": "regression"}, {"text": "text", "label": "score"}),
    "several.csv": (
        "text;labels\n" + "".join(f"the cat is {i};{('red', 'green', 'red|blue', 'green|blue', 'red|green', 'green|red')[i % 6]}\n" for i in range(60)),
        {"type": "multi_label_classification", "labels": ["blue", "green", "red"]}, {"delimiter": ";", "label_separator": "|"}),
    "lists.jsonl": (
        "".join(json.dumps({"text": f"the cat {i}", "labels": ["a", "b"] if i % 2 else ["b"]}) + "\n" for i in range(40)),
        {"type": "multi_label_classification", "labels": ["a", "b"]}, {"label": "labels"}),
    "tags.conll": (
        "".join(f"the O\ncat B-ANIMAL\nin O\nparis B-PLACE\n\n" for _ in range(30)),
        {"type": "token_classification", "labels": ["B-ANIMAL", "B-PLACE", "O"]}, {}),
    "tags.jsonl": (
        "".join(json.dumps({"tokens": ["the", "cat", str(i)], "ner_tags": ["O", "B-ANIMAL", "O"]}) + "\n" for i in range(40)),
        {"type": "token_classification", "labels": ["B-ANIMAL", "O"]}, {"tokens": "tokens", "label": "ner_tags"}),
    "bare.csv": (
        "".join(f"{i % 2},the cat is number {i} here\n" for i in range(40)),
        {"type": "sequence_classification", "labels": ["0", "1"]}, {"header": False, "text": 1, "label": 0}),
    "fields.jsonl": (
        "".join(json.dumps({"text": f"the cat in the house {i}", "columns": [f"name of it {i}", "its colour and more"],
                            "labels": ["word", "colour"]}) + "\n" for i in range(40)),
        {"type": "token_classification", "labels": ["colour", "word"]}, {"fields": "columns", "text": "text"}),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_runs_as_it_is(name, tmp_path, model):
    content, task, keys = KINDS[name]
    (tmp_path / name).write_text(content)
    init(tmp_path, name, "--model", model)
    config = config_of(tmp_path)
    assert config["task"] == task
    assert {key: config["data"].get(key) for key in keys} == keys
    assert trained(tmp_path)["status"] == "completed"


def test_a_folder_a_class(tmp_path, model):
    for i, (text, topic) in enumerate(sentences(40)):
        (tmp_path / "train" / topic).mkdir(parents=True, exist_ok=True)
        (tmp_path / "train" / topic / f"{i}.txt").write_text(text)
    init(tmp_path, "train", "--model", model)
    config = config_of(tmp_path)
    assert config["data"]["train"] == "train" and config["task"]["labels"] == sorted(support.TOPICS)
    assert trained(tmp_path)["status"] == "completed"


def test_another_format_than_the_name_says_is_written(tmp_path, model):
    (tmp_path / "rows.txt").write_text("text,label\n" + "".join(f"{t},{l}\n" for t, l in sentences(40)))
    support.refused(3, "init", "rows.txt", "--model", model, says="set data.format", cwd=tmp_path)
    init(tmp_path, "rows.txt", "--model", model, "--format", "csv")
    assert config_of(tmp_path)["data"]["format"] == "csv"
    trained(tmp_path)


def test_hints(tmp_path, model):
    rows = [(text, topic, "good" if i % 3 else "bad") for i, (text, topic) in enumerate(sentences(60))]
    support.write_csv(tmp_path / "a.csv", rows, ("words", "topic", "mood"))
    result = init(tmp_path, "a.csv", "--model", model, "--output", "one.json")
    assert "unsure: data.label may as well be" in result.stderr
    init(tmp_path, "a.csv", "--model", model, "--label", "mood", "--output", "two.json", "--max-length", "48")
    assert config_of(tmp_path, "two.json")["data"]["label"] == "mood"
    assert config_of(tmp_path, "two.json")["data"]["max_length"] == 48
    support.refused(3, "init", "a.csv", "--model", model, "--label", "moods", "--output", "-",
                    says="no column 'moods' (did you mean 'mood'?)", cwd=tmp_path)


def test_never_overwrites_unless_told(tmp_path, model):
    support.write_csv(tmp_path / "a.csv", sentences(40))
    (tmp_path / "job.json").write_text("mine")
    support.refused(2, "init", "a.csv", "--model", model, says=["job.json is there already", "--overwrite"], cwd=tmp_path)
    assert (tmp_path / "job.json").read_text() == "mine"
    init(tmp_path, "a.csv", "--model", model, "--overwrite")
    assert config_of(tmp_path)["data"]["train"] == "a.csv"
    assert json.loads(init(tmp_path, "a.csv", "--model", model, "--output", "-").stdout) == config_of(tmp_path)


def test_paths_start_at_the_config(tmp_path, model):
    (tmp_path / "data").mkdir()
    (tmp_path / "configs").mkdir()
    support.write_csv(tmp_path / "data" / "a.csv", sentences(40))
    init(tmp_path, "data/a.csv", "--model", model, "--output", "configs/a.json")
    assert config_of(tmp_path, "configs/a.json")["data"]["train"] == "../data/a.csv"
    support.finetune("config", "--validate", "configs/a.json", cwd=tmp_path)


def test_without_weights_it_learns_from_random_ones(tmp_path, model):
    (tmp_path / "bare").mkdir()
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        (tmp_path / "bare" / name).write_bytes((model / name).read_bytes())
    support.write_csv(tmp_path / "a.csv", sentences(40))
    result = init(tmp_path, "a.csv", "--model", "bare")
    assert config_of(tmp_path)["model"] == {"path": "bare", "init": "random"}
    assert config_of(tmp_path)["optimizer"]["learning_rate"] == 1e-3
    assert "holds no weights" in result.stderr
    trained(tmp_path)


def hub_cache(folder, model, ids):
    for name in ids:
        snapshot = folder / ("models--" + name.replace("/", "--")) / "snapshots" / "abc"
        snapshot.parent.mkdir(parents=True)
        snapshot.symlink_to(model)
    return support.environment(HF_HUB_CACHE=str(folder))


def test_without_a_model_those_at_hand_are_named(tmp_path, model):
    support.write_csv(tmp_path / "a.csv", sentences(40))
    (tmp_path / "work").mkdir()
    support.write_csv(tmp_path / "work" / "a.csv", sentences(40))
    empty = support.environment(HF_HUB_CACHE=str(tmp_path / "empty"))
    support.refused(2, "init", "a.csv", says=["--model is missing", "hf download"], cwd=tmp_path / "work", env=empty)
    cache = hub_cache(tmp_path / "hub", model, ["some/encoder", "tiny"])
    result = init(tmp_path / "work", "a.csv", env=cache)
    assert "model.path: some/encoder, because it is at hand" in result.stderr
    assert "there are other models, too: tiny" in result.stderr
    assert config_of(tmp_path / "work")["model"]["path"] == "some/encoder"
    support.finetune("config", "--validate", "job.json", cwd=tmp_path / "work", env=cache)
    support.refused(2, "init", "a.csv", "--model", "some/encodr", "--output", "-", says="did you mean some/encoder?",
                    cwd=tmp_path / "work", env=cache)


@pytest.mark.parametrize("name, code, says", [
    ("no-such.csv", 3, "no such file"),
    ("empty.csv", 3, "expected some"),
    ("one.csv", 3, "no column looks like a label"),
    ("table.parquet", 3, "python3 -c"),
])
def test_what_cannot_be_guessed_is_refused(name, code, says, tmp_path, model):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "one.csv").write_text("text\n" + "".join(f"words and words {i}\n" for i in range(30)))
    (tmp_path / "table.parquet").write_bytes(b"PAR1\x15")
    support.refused(code, "init", name, "--model", model, says=says, cwd=tmp_path)
