// One run: what its records say, and the sections about it.

const COMPARED_FIRST = ["accuracy", "macro_f1", "f1", "micro_f1", "pearson", "spearman", "loss"];

/// [[name, metrics], ...] of summary.json; a split of several files is one entry a file.
function splitMetrics(run) {
  const found = [];
  for (const [split, metrics] of Object.entries((run.summary || {}).metrics || {})) {
    const single = Object.values(metrics).some(isNumber);
    if (single) found.push([split, metrics]);
    else found.push(...Object.entries(metrics || {}));
  }
  return found;
}

/// The metric that makes a checkpoint the best, and whether more of it is better.
function headMetric(run) {
  const checkpoint = (run.config || {}).checkpoint || {};
  const name = ((run.summary || {}).best || {}).metric || checkpoint.metric || "loss";
  const more = checkpoint.mode === "max" || (checkpoint.mode !== "min" && !SMALL_IS_GOOD.has(name));
  return {name, more};
}

/// The best value of the run: of its summary, else of the evaluations so far.
function bestValue(run, {name, more} = headMetric(run)) {
  const best = (run.summary || {}).best;
  if (best && best.metric === name && isNumber(best.value)) return best.value;
  const known = evaluations(run).flatMap(([, events]) => events[name] || []).filter(isNumber);
  if (known.length === 0) return NaN;
  return more ? Math.max(...known) : Math.min(...known);
}

/// A metric of the model that the run kept on its first split that has it.
function finalValue(run, name) {
  for (const [, metrics] of splitMetrics(run)) {
    if (isNumber(metrics[name])) return metrics[name];
  }
  const events = evaluations(run).map(([, e]) => (e[name] || []).filter(isNumber)).find((values) => values.length > 0);
  return events ? events[events.length - 1] : NaN;
}

function evaluations(run) {
  return Object.entries(run.eval || {});
}

/// Epochs at steps, where an event does not say them.
function epochsAt(run, steps) {
  const {step = [], epoch = []} = run.train.step && run.train.step.length ? run.train : run.epoch;
  const last = step.length - 1;
  if (last < 0 || !isNumber(epoch[last])) return steps.map(() => null);
  const first = (run.start || {}).first_epoch || 0;
  return steps.map((s) => first + s * (epoch[last] - first) / step[last]);
}

function trainSeries(run, field, name, style, more = {}) {
  const {step = [], epoch = []} = run.train;
  const y = run.train[field] || [];
  return y.some(isNumber) ? [{name, style, run: run.index, step, epoch, y: step.map((_, i) => y[i] ?? null), ...more}] : [];
}

function evalSeries(run, events, field, name, style) {
  const step = events.step || [], y = events[field] || [];
  if (!y.some(isNumber)) return [];
  return [{name, style, run: run.index, step, epoch: epochsAt(run, step), y: step.map((_, i) => y[i] ?? null), marker: true, raw: true}];
}

/// The metrics that evaluations of the runs logged, those that people look at first at the front.
function loggedMetrics(runs) {
  const names = new Set(runs.flatMap((run) => evaluations(run).flatMap(([, events]) => Object.keys(events))));
  for (const other of ["step", "epoch", "loss"]) names.delete(other);
  return [...COMPARED_FIRST.filter((name) => names.has(name)), ...[...names].filter((name) => !COMPARED_FIRST.includes(name)).sort()];
}

/// A chart of a metric that can be chosen. seriesOf(metric) -> series.
function metricPanel(runs, seriesOf) {
  const names = loggedMetrics(runs);
  if (names.length === 0) return null;
  const head = headMetric(runs[0]).name;
  const first = names.includes(head) ? head : names[0];
  const place = element("div", {});
  const show = (name) => {
    const chart = new Curves(`Validation, ${metricTitle(name)}`, seriesOf(name), {format: metricValue});
    place.replaceChildren(...chart.node.childNodes);
  };
  show(first);
  return panel(null, element("div", {class: "bar"}, labelled("Metric ", select(names.map((n) => [n, metricTitle(n)]), first, show))), place);
}

function curveSection(run) {
  const losses = [...trainSeries(run, "loss", "training", 0),
                  ...evaluations(run).flatMap(([split, events], i) => evalSeries(run, events, "loss", split, 1 + i))];
  const one = (title, fields, options) => {
    const series = fields.flatMap(([field, name], i) => trainSeries(run, field, name, i, {raw: options.raw}));
    return series.length > 0 ? new Curves(title, series, options).node : null;
  };
  return [
    losses.length > 0 ? new Curves("Loss", losses, {format: metricValue, loss: true}).node : null,
    metricPanel([run], (name) => evaluations(run).flatMap(([split, events], i) => evalSeries(run, events, name, split, 1 + i))),
    one("Learning rate", [["learning_rate", "learning rate"]], {height: 200, raw: true}),
    one("Gradient norm", [["grad_norm", "gradient norm"]], {height: 200}),
  ].filter(Boolean);
}

function speedSection(run) {
  const chart = (title, fields, format, raw = false) => {
    const series = fields.flatMap(([field, name], i) => trainSeries(run, field, name, i, {raw}));
    return series.length > 0 ? new Curves(title, series, {format, height: 200}).node : null;
  };
  return [
    chart("Tokens a second", [["tokens_per_second", "tokens a second"]], (v) => number(v, 3)),
    chart("Memory, MB", [["memory_peak_mb", "peak"], ["memory_reserved_mb", "reserved"], ["memory_allocated_mb", "allocated"]], (v) => number(v, 5), true),
    chart("How busy", [["flops_fraction", "of the machine's products"], ["data_wait_fraction", "waiting for data"],
                       ["utilization", "GPU"]], (v) => percent(v, 1)),
  ].filter(Boolean);
}

/// The figures at the head of a run.
function figuresOf(run) {
  const summary = run.summary || {}, start = run.start || {}, head = headMetric(run);
  const lastStep = summary.steps ?? (run.train.step || []).slice(-1)[0];
  const epochs = summary.epochs ?? (run.train.epoch || []).slice(-1)[0];
  const figures = [];
  const add = (title, value, small) => { if (value !== "–") figures.push([title, value, small]); };
  const best = summary.best || {};
  add("best " + metricTitle(head.name), metricValue(bestValue(run)), isNumber(best.step) ? `at step ${number(best.step)}` : "validation");
  for (const [split, metrics] of splitMetrics(run).slice(0, 2)) {
    for (const name of COMPARED_FIRST.filter((n) => isNumber(metrics[n])).slice(0, 2)) {
      if (name !== head.name || split !== "validation") add(metricTitle(name), metricValue(metrics[name]), split);
    }
  }
  add("steps", number(lastStep), isNumber(start.num_steps) ? `of ${number(start.num_steps)}` : null);
  add("epochs", number(epochs, 3));
  add("training took", duration(summary.train_seconds), "evaluation and saving left out");
  add("rows a second", number(summary.samples_per_second, 3));
  add("tokens a second", number(summary.tokens_per_second, 3));
  add("peak memory", megabytes(summary.peak_memory_mb));
  const device = summary.device || start.device;
  if (device) add("device", device, summary.precision || start.precision);
  return element("dl", {class: "figures"}, figures.map(([title, value, small]) => element("div", {}, element("dt", {}, title),
    element("dd", {}, value, small ? element("small", {}, small) : null))));
}

const STATUS_WORDS = {completed: "completed", interrupted: "interrupted", failed: "failed", unfinished: "unfinished"};

function statusBadge(run) {
  const word = STATUS_WORDS[run.status] || String(run.status);
  return element("span", {class: "status " + (STATUS_WORDS[run.status] || "unfinished")}, word);
}

function notesOf(run) {
  const notes = [...run.problems];
  if (run.status === "unfinished") {
    notes.unshift(`There is no summary.json: the run is still training, or was killed. Last record: ${run.last_record || "unknown"}.`);
  }
  if (notes.length === 0) return null;
  return element("div", {class: "problems", role: "note"}, element("ul", {}, notes.map((note) => element("li", {}, note))));
}

/// [[id, title, panels], ...] of a run; sections without a panel are left out.
function sectionsOf(run) {
  return [["curves", "Curves", curveSection(run)], ["speed", "Speed and memory", speedSection(run)],
          ["evaluation", "Evaluation", evaluationSection(run)], ["data", "Data", dataSection(run)],
          ["config", "Config and environment", configSection(run)]].filter(([, , panels]) => panels.length > 0);
}
