"""`finetune eval --json` against scikit-learn on the same run's `--predictions`."""

import json
import math

import pytest
import support
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, matthews_corrcoef


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A classifier that is right often, but not always; the class `places` is the rarest."""
    folder = tmp_path_factory.mktemp("metrics")
    rows = support.make_rows(60, seed=1, topics=("animals", "colours", "colours")) + [("paris", "places")]
    config = support.write_config(folder / "config.json", support.make_encoder(folder / "encoder"),
                                  support.write_csv(folder / "train.csv", rows), train={"epochs": 3})
    support.finetune("--config", config, "--quiet")
    return folder / "run" / "model"


CASES = {
    "all classes": lambda: support.make_rows(500, seed=21),
    "a class without gold": lambda: support.make_rows(200, seed=22, topics=("animals", "colours")),
    "one class only": lambda: support.make_rows(40, seed=23, topics=("places",)),
    "one row": lambda: [("the cat", "animals")],
}


@pytest.mark.parametrize("case", CASES)
def test_metrics(tmp_path, model, case):
    rows = CASES[case]()
    data = support.write_csv(tmp_path / "test.csv", rows)
    result = support.finetune("eval", "--model", model, "--device", "cpu", "--data", data, "--json",
                              tmp_path / "metrics.json", "--predictions", tmp_path / "predictions.jsonl")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert result.lines() == [metrics]
    predictions = support.read_jsonl(tmp_path / "predictions.jsonl")
    assert [(line["text"], line["gold"]) for line in predictions] == rows

    gold = [line["gold"] for line in predictions]
    predicted = [line["label"] for line in predictions]
    assert metrics["accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=1e-9)
    assert metrics["macro_f1"] == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0), abs=1e-9)
    assert metrics["matthews_correlation"] == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-9)
    assert metrics["confusion"] == confusion_matrix(gold, predicted, labels=sorted(support.TOPICS)).tolist()
    loss = -sum(math.log(line["scores"][line["gold"]]) for line in predictions) / len(predictions)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    for line in predictions:
        assert sum(line["scores"].values()) == pytest.approx(1, abs=1e-12)
        assert line["score"] == max(line["scores"].values()) == line["scores"][line["label"]]
