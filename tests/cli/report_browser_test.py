"""The report's page in a real browser: no error on its console, and the numbers of the run's own files."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest

import support

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LEARNING_RATES = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2)


def test_there_is_a_browser():
    assert BROWSER, "no Chromium on this machine; scripts/setup --tests installs it"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def runs(folder):
    """Eight runs that differ in their learning rate; texts and a label are full of markup."""
    rows = [(text + " <script>alert(1)</script><img src=x onerror=alert(1)>", "<b>animals</b>" if label == "animals" else label)
            for text, label in support.make_rows(80, seed=1)]
    config = support.write_config(
        folder / "run.json", support.make_encoder(folder / "encoder"), support.write_csv(folder / "train.csv", rows),
        data={"validation_fraction": 0.25}, checkpoint={"metric": "accuracy"})
    for number, rate in enumerate(LEARNING_RATES):
        support.finetune("--config", config, "--set", f"optimizer.learning_rate={rate}", "--output-dir", folder / f"run-{number}",
                         "--quiet")
    return [support.Run(folder / f"run-{number}") for number in range(len(LEARNING_RATES))]


class Dom(html.parser.HTMLParser):
    """What of a page's elements is compared."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.skipped = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.skipped = tag in ("script", "style")
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.skipped = False

    def handle_data(self, data):
        if not self.skipped:
            self.words.append(data)

    def all(self, tag, **having):
        return [attributes for name, attributes in self.elements if name == tag and
                all(attributes.get(key.replace("_", "-")) == value for key, value in having.items())]

    @property
    def text(self):
        return " ".join(self.words)

    def values(self):
        return {attributes["data-metric"]: attributes["data-value"] for _, attributes in self.elements if "data-metric" in attributes}


def opened(page, profile, *flags):
    """The page's elements after its scripts ran; nothing may be said on the console, and nothing loaded."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
               "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", *flags, "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=support.DEADLINE_SECONDS)
    said = [line for line in done.stderr.splitlines() if re.search(r":CONSOLE[:(]", line)]
    assert done.returncode == 0 and said == [], said
    dom = Dom(done.stdout)
    root, = dom.all("html")
    assert root.get("data-ready") == "yes" and "data-error" not in root, root
    return dom


def check_access(dom):
    """What a screen reader and a keyboard need."""
    assert all(svg.get("aria-label") for svg in dom.all("svg", role="img"))
    assert {svg.get("tabindex") for svg in dom.all("svg", role="img")} <= {"0", None}
    assert len(dom.all("caption")) == len(dom.all("table"))
    assert all(head.get("scope") for head in dom.all("th"))
    identifiers = [attributes["id"] for _, attributes in dom.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers)), "an id is given twice"


def test_one_run(runs, folder, tmp_path):
    dom = opened(runs[3].path / "report.html", tmp_path)
    summary = runs[3].summary()
    shown = dom.values()
    scores = {name: value for name, value in summary["metrics"]["validation"].items() if isinstance(value, (int, float))}
    assert {name: float(shown[f"validation.{name}"]) for name in scores} == scores
    for title in ("Loss", "Learning rate", "Tokens a second", "Memory, MB", "Confusion, validation", "By class, validation",
                  "Calibration, validation", "Errors, validation", "Label balance", "Lengths", "Config", "Environment"):
        assert title in dom.text, title
    assert f"{summary['best']['value']:.4f}" in dom.text and "completed" in dom.text
    assert "optimizer.learning_rate" in dom.text
    for attributes in dom.all("svg", role="img")[:1]:
        assert "training" in attributes["aria-label"] and "validation" in attributes["aria-label"]
    check_access(dom)
    # Texts and labels of the data are text.
    assert "<img src=x onerror=alert(1)>" in dom.text and "<b>animals</b>" in dom.text
    assert dom.all("img") == [] and all("onerror" not in attributes for _, attributes in dom.elements)


def test_eight_runs(runs, folder, tmp_path):
    page = tmp_path / "eight.html"
    support.finetune("report", *[run.path for run in runs], "--output", page)
    dom = opened(page, tmp_path / "profile")
    best = {f"{run.path.name}.best": run.summary()["best"]["value"] for run in runs}
    assert {name: float(value) for name, value in dom.values().items() if name in best} == best
    assert {row["data-run"] for row in dom.all("tr") if "data-run" in row} == {run.path.name for run in runs}
    marked, = [row for row in dom.all("tr") if row.get("class") == "best"]
    assert best[marked["data-run"] + ".best"] == max(best.values())
    coordinates, = [svg["aria-label"] for svg in dom.all("svg", role="img") if svg["aria-label"].startswith("Parallel")]
    assert "learning_rate" in coordinates and "8 runs" in coordinates
    lines = [path for path in dom.all("path") if "coordinate" in path.get("class", "")]
    assert len(lines) == 8
    check_access(dom)


@pytest.mark.parametrize("damage", ["log cut off", "no summary", "no details", "only a log"])
def test_damaged_runs(runs, tmp_path, damage):
    run = tmp_path / "damaged"
    run.mkdir()
    files = {name: (runs[0].path / name).read_bytes() for name in ("config.json", "metrics.jsonl", "summary.json", "details.json")}
    if damage == "log cut off":
        files["metrics.jsonl"] = files["metrics.jsonl"][:len(files["metrics.jsonl"]) // 2 + 11]
    left_out = {"no summary": ["summary.json"], "no details": ["details.json"],
                "only a log": ["config.json", "summary.json", "details.json"]}.get(damage, [])
    for name, content in files.items():
        if name not in left_out:
            (run / name).write_bytes(content)
    support.finetune("report", run)
    dom = opened(run / "report.html", tmp_path / "profile")
    assert "Loss" in dom.text
    if "summary.json" in left_out:
        assert "unfinished" in dom.text
    check_access(dom)


def test_a_phone_scrolls_in_one_direction_only(runs, tmp_path):
    """At 360 px nothing but the tables' own regions is wider than the screen."""
    probe = ("<script>setTimeout(() => parent.postMessage(document.documentElement.scrollWidth + ' of ' + innerWidth, '*'), 1000);"
             "</script></body>")
    eight = tmp_path / "eight.html"
    support.finetune("report", *[run.path for run in runs], "--output", eight)
    # A window is no narrower than 500 px, so that the page is put into a frame of a phone's width.
    frame = tmp_path / "frame.html"
    frame.write_text("<!DOCTYPE html><html data-ready='yes'><body><script>addEventListener('message', (event) => {"
                     "document.body.dataset.width = event.data; });</script>"
                     "<iframe width='360' height='800' style='border: 0' src='inner.html'></iframe></body></html>", encoding="utf-8")
    for page in (eight, runs[0].path / "report.html"):
        (tmp_path / "inner.html").write_text(page.read_text(encoding="utf-8").replace("</body>", probe), encoding="utf-8")
        body = opened(frame, tmp_path / "profile").all("body")[0]
        width, of = map(int, body["data-width"].split(" of "))
        assert of == 360 and width <= 360, body
