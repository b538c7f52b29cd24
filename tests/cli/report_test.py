"""`finetune report`, and the page that a run writes by itself."""

import html.parser
import json
import signal

import pytest

import support


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def config(folder):
    rows = support.make_rows(96, seed=1)
    rows[5] = ("</script><img src=x onerror=\"alert(1)\"> cat", rows[5][1])
    return support.write_config(
        folder / "run.json", support.make_encoder(folder / "encoder"), support.write_csv(folder / "train.csv", rows),
        data={"validation": str(support.write_csv(folder / "dev.csv", support.make_rows(40, seed=2)))},
        train={"eval_every": "1 epoch"}, checkpoint={"metric": "accuracy"})


@pytest.fixture(scope="module")
def run(folder, config):
    support.finetune("--config", config, "--output-dir", folder / "run", "--quiet")
    return support.Run(folder / "run")


class Page(html.parser.HTMLParser):
    """The data that a page embeds, and what it would load from elsewhere."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.tags, self.text, self.inside = [], set(), "", False
        self.feed(path.read_text(encoding="utf-8"))
        self.runs = json.loads(self.text)["runs"]

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        attributes = dict(attributes)
        self.inside = tag == "script" and attributes.get("type") == "application/json"
        self.loads += [value for name, value in attributes.items() if name in ("src", "href") and not value.startswith(("#", "data:"))]

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.text += data if self.inside else ""


def test_a_run_ends_with_its_page(run):
    page = Page(run.path / "report.html")
    assert page.loads == [] and "img" not in page.tags
    shown, = page.runs
    assert shown["status"] == "completed" and shown["problems"] == []
    assert shown["summary"] == run.summary()
    assert shown["config"] == json.loads((run.path / "config.json").read_text())
    losses = [event["loss"] for event in run.events("train")]
    assert shown["train"]["loss"] == pytest.approx(losses, rel=1e-6)
    assert shown["eval"]["validation"]["accuracy"] == pytest.approx([event["accuracy"] for event in run.events("eval")], rel=1e-6)


def test_details_are_those_of_the_predictions(folder, run):
    """Errors, calibration and counts, compared with `finetune eval`'s row by row."""
    rows = folder / "rows.jsonl"
    support.finetune("eval", "--model", run.path / "model", "--data", folder / "dev.csv", "--predictions", rows, "--quiet")
    predictions = support.read_jsonl(rows)
    details = json.loads((run.path / "details.json").read_text())
    evaluation = details["evaluations"]["validation"]

    wrong = sorted(((row["score"], number) for number, row in enumerate(predictions) if row["label"] != row["gold"]), reverse=True)
    # Scores that nearly tie may be ordered otherwise by another process.
    assert {answer["row"] for answer in evaluation["confident"]} == {number for _, number in wrong} and len(wrong) <= 40
    scores = [answer["score"] for answer in evaluation["confident"]]
    assert scores == sorted(scores, reverse=True) and scores == pytest.approx([score for score, _ in wrong], abs=1e-5)
    for answer in evaluation["worst"] + evaluation["confident"]:
        row = predictions[answer["row"]]
        assert (answer["text"], answer["gold"], answer["predicted"]) == (row["text"], row["gold"], row["label"])
        assert answer["score"] == pytest.approx(row["score"], abs=1e-5)
        assert answer["file"] == "dev.csv" and answer["line"] == answer["row"] + 2
    bins = [[row for row in predictions if min(int(row["score"] * 10), 9) == number] for number in range(10)]
    assert [b["count"] for b in evaluation["calibration"]] == [len(b) for b in bins]
    for shown, rows_of_bin in zip(evaluation["calibration"], bins):
        if rows_of_bin:
            assert shown["right"] == pytest.approx(sum(r["label"] == r["gold"] for r in rows_of_bin) / len(rows_of_bin))

    gold = [row["gold"] for row in predictions]
    assert details["data"]["validation"]["labels"] == {topic: gold.count(topic) for topic in sorted(support.TOPICS)}
    lengths = details["data"]["train"]["lengths"]
    assert sum(lengths["counts"]) == 96 and len(lengths["counts"]) <= 32
    least = sum(count * (number * lengths["width"] + 1) for number, count in enumerate(lengths["counts"]))
    most = sum(count * (number + 1) * lengths["width"] for number, count in enumerate(lengths["counts"]))
    assert least <= details["data"]["train"]["tokens"] <= most


def test_texts_of_rows_that_were_held_out(folder, config):
    """They are found again among the training rows."""
    support.finetune("--config", config, "--set", "data.validation=null", "--set", "data.validation_fraction=0.25",
                     "--output-dir", folder / "held-out", "--quiet")
    details = json.loads((folder / "held-out" / "details.json").read_text())
    answers = details["evaluations"]["validation"]["worst"]
    assert len(answers) == len({answer["row"] for answer in answers}) == details["data"]["validation"]["rows"]
    lines = (folder / "train.csv").read_text().splitlines()
    for answer in answers:
        text, _, label = lines[answer["line"] - 1].rpartition(",")
        assert answer["gold"] == label and answer["text"].replace('"', '""').strip('"') in text


@pytest.mark.parametrize("kind", ["multi_label_classification", "regression", "token_classification"])
def test_other_tasks(folder, kind):
    rows = support.make_rows(40, seed=3)
    if kind == "regression":
        rows = [(text, len(text) / 10) for text, _ in rows]
    if kind == "token_classification":
        rows = [(text.split(), ["B-X" if word in sum(support.TOPICS.values(), []) else "O" for word in text.split()]) for text, _ in rows]
        file = support.write_jsonl(folder / f"{kind}.jsonl", rows, ("tokens", "tags"))
        data = {"tokens": "tokens", "label": "tags"}
    else:
        file, data = support.write_csv(folder / f"{kind}.csv", rows), {}
    config = support.write_config(folder / f"{kind}.json", folder / "encoder" if (folder / "encoder").exists() else
                                  support.make_encoder(folder / "encoder"), file, task={"type": kind},
                                  data={"validation_fraction": 0.2, **data}, output_dir=kind, checkpoint={"metric": "loss"})
    support.finetune("--config", config, "--quiet")
    evaluation = json.loads((folder / kind / "details.json").read_text())["evaluations"]["validation"]
    assert evaluation["worst"] and all(answer["text"] for answer in evaluation["worst"])
    fields = {"multi_label_classification": "label", "regression": "predicted", "token_classification": "item"}
    assert fields[kind] in evaluation["worst"][0]
    errors = [answer["error"] for answer in evaluation["worst"]]
    assert errors == sorted(errors, reverse=True)
    assert Page(folder / kind / "report.html").runs[0]["details"]["evaluations"]["validation"] == evaluation


def test_logging_html_false_writes_no_page(folder, config):
    support.finetune("--config", config, "--set", "logging.html=false", "--output-dir", folder / "plain", "--quiet")
    assert not (folder / "plain" / "report.html").exists() and not (folder / "plain" / "details.json").exists()
    done = support.finetune("report", folder / "plain")
    assert done.stdout.strip() == str(folder / "plain" / "report.html")
    assert Page(folder / "plain" / "report.html").runs[0]["details"] is None


def test_the_page_neither_changes_the_run_nor_its_log(folder, config, run):
    without = support.Run(folder / "plain")
    if not without.path.exists():
        support.finetune("--config", config, "--set", "logging.html=false", "--output-dir", without.path, "--quiet")
    assert without.summary()["weights_sha256"] == run.summary()["weights_sha256"]
    assert without.comparable_log() == run.comparable_log()


def test_a_run_that_is_killed_or_stopped(folder, config):
    long = ("--config", config, "--set", "train.epochs=1000", "--set", "train.eval_every=\"5 steps\"", "--quiet")
    killed = support.Training(folder / "killed", *long, "--output-dir", folder / "killed")
    killed.wait_for_step(12)
    page = folder / "killed" / "report.html"
    assert page.exists() and Page(page).runs[0]["status"] == "unfinished", "no page while the run goes on"
    killed.stop(signal.SIGKILL)
    log = folder / "killed" / "metrics.jsonl"
    log.write_bytes(log.read_bytes()[:-7])
    support.finetune("report", folder / "killed", "--output", folder / "killed.html")
    shown, = Page(folder / "killed.html").runs
    assert shown["status"] == "unfinished" and len(shown["train"]["step"]) >= 11 and shown["summary"] is None
    assert "cut off" in shown["problems"][0] and shown["details"]["data"]["train"]["rows"] == 96

    stopped = support.Training(folder / "stopped", *long, "--output-dir", folder / "stopped")
    stopped.wait_for_step(12)
    assert stopped.stop(signal.SIGTERM).code == 143
    assert Page(folder / "stopped" / "report.html").runs[0]["status"] == "interrupted"


def test_several_runs_in_one_page(folder, config, run, tmp_path):
    support.finetune("--config", config, "--set", "optimizer.learning_rate=3e-3", "--output-dir", folder / "other", "--quiet")
    done = support.finetune("report", run.path, folder / "other", cwd=tmp_path)
    assert done.stdout == "report.html\n"
    shown = Page(tmp_path / "report.html").runs
    assert [one["name"] for one in shown] == ["run", "other"]
    assert [one["config"]["optimizer"]["learning_rate"] for one in shown] == [1e-3, 3e-3]


def test_overwrite_deletes_the_old_page(folder, config):
    target = folder / "again"
    support.finetune("--config", config, "--output-dir", target, "--quiet")
    support.finetune("--config", config, "--set", "logging.html=false", "--output-dir", target, "--overwrite", "--quiet")
    assert not (target / "report.html").exists() and not (target / "details.json").exists()


def test_a_folder_that_is_no_run_is_refused(folder, run):
    support.refused(2, "report", run.path / "model", says=[str(run.path / "model"), "is no run's folder", "output_dir"])
    support.refused(2, "report", run.path, folder / "absent", "--output", folder / "x.html", says=[str(folder / "absent"), "no such folder"])
    support.refused(2, "report", folder, says=["such as those in it"])
    support.refused(2, "report", says="RUN")
    support.refused(2, "report", run.path, "--output", folder / "no" / "such" / "page.html", says="no/such")
    assert not (folder / "x.html").exists()
