"""The cache of encoded rows: a run that finds its data there is the run that encoded it."""

import pytest
import support

TAKEN = "encoded rows are taken from"


@pytest.fixture
def folder(tmp_path):
    support.make_encoder(tmp_path / "encoder")
    support.write_csv(tmp_path / "train.csv", support.make_rows(90, seed=1, longest=40))
    support.write_csv(tmp_path / "test.csv", support.make_rows(30, seed=2))
    return tmp_path


def train(folder, output, cache="cache", code=0, **changes):
    data = {"test": "test.csv", "cache_dir": cache, "validation_fraction": 0.2, "max_length": 16}
    config = support.write_config(folder / "config.json", "encoder", "train.csv", output_dir=output,
                                  **support.merged({"data": data, "train": {"epochs": 1}}, changes))
    return support.finetune("--config", config, code=code), support.Run(folder / output)


def outcome(run):
    return run.summary()["weights_sha256"], run.summary()["metrics"], run.comparable_log()


def test_a_hit_gives_the_same_run(folder):
    first, plain = train(folder, "plain", cache="none")
    assert TAKEN not in first.stderr and not (folder / "cache").exists()
    written, miss = train(folder, "miss")
    assert TAKEN not in written.stderr
    taken, hit = train(folder, "hit")
    assert taken.stderr.count(TAKEN) == 2, taken
    assert outcome(hit) == outcome(miss) == outcome(plain)
    for result in (first, taken):
        assert "rows are longer than 16 tokens and were truncated" in result.stderr


@pytest.mark.parametrize("changes", [
    {"data": {"max_length": 12}}, {"data": {"validation_fraction": 0.3}}, {"data": {"max_rows": 50}}, {"seed": 7},
    {"data": {"truncation": "only_first"}}, {"task": {"labels": ["places", "colours", "animals"]}},
])
def test_what_decides_the_rows_is_part_of_the_key(folder, changes):
    train(folder, "first")
    result, _ = train(folder, "second", **changes)
    assert f"train.csv: {TAKEN}" not in result.stderr


def test_what_does_not_decide_the_rows_is_not(folder):
    train(folder, "first")
    result, _ = train(folder, "second", train={"batch_size": 4}, optimizer={"learning_rate": 1e-2}, data={"shuffle": False})
    assert result.stderr.count(TAKEN) == 2


def test_the_tokenizer_is_part_of_the_key(folder):
    train(folder, "first")
    support.write_tokenizer(folder / "encoder", do_lower_case=False)
    result, _ = train(folder, "second")
    assert TAKEN not in result.stderr


def test_a_changed_file_is_read_again(folder):
    train(folder, "first")
    support.write_csv(folder / "train.csv", support.make_rows(90, seed=3))
    result, run = train(folder, "second")
    assert result.stderr.count(TAKEN) == 1
    assert run.events("start")[0]["data"]["train"]["truncated"] == 0


def test_damage_is_named_and_mended(folder):
    _, first = train(folder, "first")
    for entry in (folder / "cache").glob("*.tokens"):
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 1
        entry.write_bytes(content)
    result, second = train(folder, "second")
    assert result.stderr.count("it is damaged") == 2 and TAKEN not in result.stderr
    assert outcome(second) == outcome(first)
    assert train(folder, "third")[0].stderr.count(TAKEN) == 2


def test_an_error_in_the_data_is_not_cached(folder):
    support.write_csv(folder / "test.csv", [("a cat", "animals"), ("a fish", "fish")])
    for output in ("first", "second"):
        result, _ = train(folder, output, code=3)
        assert "test.csv:3: label 'fish' is not known" in result.stderr
