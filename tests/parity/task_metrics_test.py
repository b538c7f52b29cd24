"""`finetune eval --json` of each task against scikit-learn, scipy and seqeval on the same run's `--predictions`."""

import json
import warnings

import numpy as np
import pytest
import scipy.stats
import seqeval.metrics
import support
from sklearn import metrics as sk

TOPICS = sorted(support.TOPICS)


def train(folder, file, **changes):
    config = support.write_config(folder / "config.json", support.make_encoder(folder / "encoder"), file, **changes)
    support.finetune("--config", config, "--quiet")
    return folder / "run" / "model"


def evaluate(folder, model, data, *flags):
    support.finetune("eval", "--model", model, "--device", "cpu", "--data", data, "--json", folder / "metrics.json",
                     "--predictions", folder / "predictions.jsonl", *flags)
    return json.loads((folder / "metrics.json").read_text()), support.read_jsonl(folder / "predictions.jsonl")


def close(value):
    return pytest.approx(value, abs=1e-9)


def check_averages(seen, gold, predicted, **options):
    for average in ("micro", "macro", "weighted"):
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            expected = function(gold, predicted, average=average, zero_division=0, **options)
            assert seen[f"{average}_{name}"] == close(expected), (average, name)


def check_table(table, gold, predicted, labels, names):
    columns = sk.precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0)
    for name, *row in zip(names, *columns, strict=True):
        seen = table[name]
        assert [seen["precision"], seen["recall"], seen["f1"], seen["support"]] == close([float(v) for v in row])


def test_two_classes(tmp_path):
    rows = support.make_rows(60, seed=1, topics=("animals", "places"))
    model = train(tmp_path, support.write_csv(tmp_path / "train.csv", rows), train={"epochs": 1})
    mixed = [(text, ["animals", "places"][n % 2]) for n, (text, _) in enumerate(support.make_rows(200, seed=2))]
    seen, lines = evaluate(tmp_path, model, support.write_csv(tmp_path / "test.csv", mixed + mixed[:20]))
    gold, predicted = [line["gold"] for line in lines], [line["label"] for line in lines]
    check_averages(seen, gold, predicted)
    check_table(seen["per_class"], gold, predicted, ["animals", "places"], ["animals", "places"])
    scores = [line["scores"]["places"] for line in lines]
    assert seen["auc"] == close(sk.roc_auc_score([g == "places" for g in gold], scores))


def test_several_labels(tmp_path):
    texts = support.make_rows(80, seed=3)
    sets = [[topic] if n % 3 else sorted({topic, TOPICS[n % 7 % 3]}) for n, (_, topic) in enumerate(texts)]
    rows = [(text, labels) for (text, _), labels in zip(texts, sets)]
    data = support.write_jsonl(tmp_path / "train.jsonl", rows)
    model = train(tmp_path, data, train={"epochs": 20},
                  task={"type": "multi_label_classification", "threshold": 0.45, "pos_weight": "balanced"})
    seen, lines = evaluate(tmp_path, model, data)
    assert [line["gold"] for line in lines] == sets
    gold = np.array([[t in line["gold"] for t in TOPICS] for line in lines]).astype(int)
    predicted = np.array([[t in line["labels"] for t in TOPICS] for line in lines]).astype(int)
    scores = np.array([[line["scores"][t] for t in TOPICS] for line in lines])
    assert (predicted == (scores >= 0.45)).all() and 0 < predicted.mean() < 1
    assert seen["accuracy"] == close(sk.accuracy_score(gold, predicted))
    check_averages(seen, gold, predicted)
    check_table(seen["per_class"], gold, predicted, list(range(3)), TOPICS)
    assert seen["auc"] == close(sk.roc_auc_score(gold, scores, average="macro"))


def test_numbers(tmp_path):
    values = [(text, round(1.5 * TOPICS.index(topic) + len(text) / 50, 3)) for text, topic in support.make_rows(80, 4)]
    data = support.write_csv(tmp_path / "train.csv", values)
    model = train(tmp_path, data, task={"type": "regression"}, checkpoint={"metric": "spearman"},
                  data={"validation": str(data)})
    seen, lines = evaluate(tmp_path, model, data)
    # The labels as the program keeps them: the nearest float.
    gold = np.array([float(line["gold"]) for line in lines]).astype(np.float32).astype(float)
    said = np.array([line["value"] for line in lines])
    assert seen["mse"] == close(sk.mean_squared_error(gold, said))
    assert seen["mae"] == close(sk.mean_absolute_error(gold, said))
    assert seen["pearson"] == close(scipy.stats.pearsonr(gold, said).statistic)
    assert seen["spearman"] == close(scipy.stats.spearmanr(gold, said).statistic)
    assert seen["loss"] == pytest.approx(seen["mse"], rel=1e-5)
    best = support.Run(tmp_path / "run").summary()["best"]
    assert best["metric"] == "spearman" and best["value"] <= 1


def tagged(count, seed):
    rows = []
    for text, _ in support.make_rows(count, seed, longest=10):
        words = text.split()
        tags = ["O"] * len(words)
        for i, word in enumerate(words):
            for kind in ("animals", "places"):
                if word in support.TOPICS[kind]:
                    tags[i] = "B-" + kind
                    if i + 1 < len(words) and i % 2:
                        tags[i + 1] = "I-" + kind
        rows.append((words, tags))
    return rows


def conll(path, rows):
    path.write_text("\n".join("".join(f"{w} X {t}\n" for w, t in zip(*row)) for row in rows), encoding="utf-8")
    return path


def test_tags(tmp_path):
    rows = tagged(80, seed=5)
    model = train(tmp_path, conll(tmp_path / "train.conll", rows), task={"type": "token_classification"},
                  train={"epochs": 12}, optimizer={"learning_rate": 3e-3})
    test = tagged(60, seed=6)
    test[0] = (test[0][0] * 80, test[0][1] * 80)  # longer than the model's positions
    seen, lines = evaluate(tmp_path, model, conll(tmp_path / "test.conll", test))
    assert [(line["tokens"], line["gold"]) for line in lines] == test
    gold, predicted = [line["gold"] for line in lines], [line["tags"] for line in lines]
    assert all(len(g) == len(p) == len(line["scores"]) for g, p, line in zip(gold, predicted, lines))
    assert lines[0]["tags"][-1] == "O" and lines[0]["scores"][-1] is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = seqeval.metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
        for name, function in (("precision", seqeval.metrics.precision_score), ("f1", seqeval.metrics.f1_score),
                               ("recall", seqeval.metrics.recall_score), ("accuracy", seqeval.metrics.accuracy_score)):
            assert seen[name] == close(function(gold, predicted)), name
    assert 0 < seen["f1"] < 1
    types = {name: row for name, row in report.items() if " avg" not in name}
    assert set(seen["per_type"]) == set(types)
    for name, row in types.items():
        table = seen["per_type"][name]
        assert [table["precision"], table["recall"], table["f1"], table["support"]] == close(
            [float(row[key]) for key in ("precision", "recall", "f1-score", "support")])


def test_fields(tmp_path):
    rows = [(text, ["cat dog", "paris", topic], ["0", None if n % 4 else "2", str(TOPICS.index(topic))])
            for n, (text, topic) in enumerate(support.make_rows(60, seed=7))]
    data = support.write_jsonl(tmp_path / "train.jsonl", rows, ("text", "columns", "label"))
    model = train(tmp_path, data, task={"type": "token_classification", "ignore_index": 10}, train={"epochs": 1},
                  data={"fields": "columns"})
    seen, lines = evaluate(tmp_path, model, data)
    assert [(line["text"], line["fields"]) for line in lines] == [row[:2] for row in rows]
    pairs = [(g, p) for line in lines for g, p in zip(line["gold"], line["labels"], strict=True) if g]
    gold, predicted = zip(*pairs)
    assert seen["accuracy"] == close(sk.accuracy_score(gold, predicted))
    check_averages(seen, gold, predicted)
    assert seen["matthews_correlation"] == close(sk.matthews_corrcoef(gold, predicted))
