// Several runs: what differs between them, a table to sort and filter, and their curves in one chart.

const NOT_COMPARED = new Set(["output_dir"]);
const SAY_LITTLE_ALONE = new Set(["type", "path", "loss", "metric", "mode"]);

/// The config keys that the runs do not all have the same, those that tell most runs apart at the front.
function differingKeys(runs) {
  const configs = runs.map((run) => flatten(run.config));
  const names = new Set(configs.flatMap(Object.keys));
  const kinds = (name) => new Set(configs.map((config) => plain(config[name]))).size;
  return [...names].filter((name) => !NOT_COMPARED.has(name) && kinds(name) > 1)
      .sort((a, b) => kinds(b) - kinds(a) || a.localeCompare(b));
}

/// A key's last part, where no other key of the list ends in it.
function shortKey(name, names) {
  const last = name.slice(name.lastIndexOf(".") + 1);
  if (SAY_LITTLE_ALONE.has(last)) return name;
  return names.filter((other) => other.slice(other.lastIndexOf(".") + 1) === last).length > 1 ? name : last;
}

function configValue(run, name) {
  return flatten(run.config)[name];
}

/// A setting in a few characters.
function setting(value) {
  return typeof value === "number" ? number(value, 4) : plain(value);
}

/// Index of the best run by the head metric; -1 where none has it.
function bestRun(runs, head) {
  let best = -1;
  runs.forEach((run, i) => {
    const value = bestValue(run, head);
    if (!isNumber(value)) return;
    const other = best < 0 ? NaN : bestValue(runs[best], head);
    if (best < 0 || (head.more ? value > other : value < other)) best = i;
  });
  return best;
}

class Comparison {
  constructor(runs) {
    this.runs = runs;
    this.head = headMetric(runs[0]);
    this.best = bestRun(runs, this.head);
    this.keys = differingKeys(runs);
    this.filtered = new Set();
    this.unchecked = new Set();
    this.listeners = [];
  }

  /// What is hidden, in curves and coordinates alike.
  update() {
    curveSettings.hidden = new Set([...this.filtered, ...this.unchecked]);
    redrawCurves();
    for (const listener of this.listeners) listener();
  }

  check(run) {
    const box = element("input", {type: "checkbox", checked: true, "aria-label": `Show ${run.name} in the charts`, onchange: () => {
      if (box.checked) this.unchecked.delete(run.index);
      else this.unchecked.add(run.index);
      this.update();
    }});
    return element("span", {class: "key"}, box, swatch(run.index));
  }

  columns() {
    const value = (run) => bestValue(run, this.head);
    const others = COMPARED_FIRST.filter((name) => name !== this.head.name && this.runs.some((run) => isNumber(finalValue(run, name)))).slice(0, 3);
    const summary = (field) => (run) => (run.summary || {})[field];
    return [
      {title: "chart", cell: (run) => this.check(run)},
      {title: "run", key: (run) => run.name, header: true},
      {title: "status", key: (run) => run.status, cell: (run) => statusBadge(run)},
      {title: "best " + metricTitle(this.head.name), key: value, cell: (run) => element("span", {"data-metric": `${run.name}.best`, "data-value": value(run)},
        metricValue(value(run))), number: true, smallFirst: !this.head.more, isHead: true},
      ...others.map((name) => ({title: metricTitle(name), key: (run) => finalValue(run, name), number: true, smallFirst: SMALL_IS_GOOD.has(name),
                                cell: (run) => metricValue(finalValue(run, name))})),
      ...this.keys.slice(0, 12).map((key) => ({title: shortKey(key, this.keys), key: (run) => configValue(run, key),
        cell: (run) => setting(configValue(run, key)), number: this.runs.every((run) => isNumber(configValue(run, key)))})),
      {title: "steps", key: (run) => summary("steps")(run) ?? (run.train.step || []).slice(-1)[0] ?? null, number: true,
       cell: (run) => number(summary("steps")(run) ?? (run.train.step || []).slice(-1)[0])},
      {title: "training took", key: summary("train_seconds"), cell: (run) => duration(summary("train_seconds")(run)), number: true},
      {title: "rows a second", key: summary("samples_per_second"), cell: (run) => number(summary("samples_per_second")(run), 3), number: true},
      {title: "peak memory", key: summary("peak_memory_mb"), cell: (run) => megabytes(summary("peak_memory_mb")(run)), number: true},
      {title: "device", key: (run) => (run.summary || {}).device || (run.start || {}).device || null, cell: (run) => (run.summary || {}).device || (run.start || {}).device || "–"},
    ];
  }

  tablePanel() {
    const attributes = (run) => ({class: run.index === this.best ? "best" : null, "data-run": run.name});
    const columns = this.columns();
    const {table, made} = sortedTable(`${this.runs.length} runs; in bold the one with the best ${metricTitle(this.head.name)}. What is hidden here is hidden in the charts.`,
                                      columns, this.runs, {attributes, sortBy: columns.find((column) => column.isHead)});
    const filter = filterField("Filter", made, (left) => {
      const shown = new Set(left.map((run) => run.index));
      this.filtered = new Set(this.runs.map((run) => run.index).filter((index) => !shown.has(index)));
      this.update();
    });
    return widePanel(null, filter, scrolled("The runs", table));
  }

  curvePanels() {
    const of = (make) => this.runs.flatMap(make);
    const chart = (title, series, options) => series.length > 0 ? new Curves(title, series, options).node : null;
    const split = (run) => evaluations(run)[0] || ["", {}];
    return [
      metricPanel(this.runs, (name) => of((run) => evalSeries(run, split(run)[1], name, run.name, run.index))),
      chart("Validation loss", of((run) => evalSeries(run, split(run)[1], "loss", run.name, run.index)), {format: metricValue, loss: true}),
      chart("Training loss", of((run) => trainSeries(run, "loss", run.name, run.index)), {format: metricValue, loss: true}),
      chart("Learning rate", of((run) => trainSeries(run, "learning_rate", run.name, run.index, {raw: true}))),
      chart("Tokens a second", of((run) => trainSeries(run, "tokens_per_second", run.name, run.index)), {format: (v) => number(v, 3)}),
      chart("Peak memory, MB", of((run) => trainSeries(run, "memory_peak_mb", run.name, run.index, {raw: true})), {format: (v) => number(v, 5)}),
    ].filter(Boolean);
  }

  figures() {
    const count = (status) => this.runs.filter((run) => run.status === status).length;
    const best = this.runs[this.best];
    const figures = [["runs", number(this.runs.length), ["completed", "unfinished", "interrupted", "failed"]
      .filter((status) => count(status) > 0).map((status) => `${count(status)} ${status}`).join(", ")]];
    if (best) {
      figures.push(["best " + metricTitle(this.head.name), metricValue(bestValue(best, this.head)), best.name]);
      for (const key of this.keys.slice(0, 4)) figures.push([shortKey(key, this.keys), setting(configValue(best, key)), "of the best run"]);
    }
    return element("dl", {class: "figures"}, figures.map(([title, value, small]) => element("div", {}, element("dt", {}, title),
      element("dd", {}, value, element("small", {}, small)))));
  }
}
