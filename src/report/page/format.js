// Numbers, names and units, as people read them.

const METRIC_TITLES = {
  loss: "loss", accuracy: "accuracy", macro_f1: "macro F1", micro_f1: "micro F1", weighted_f1: "weighted F1", f1: "F1",
  matthews_correlation: "Matthews correlation", auc: "AUC", mse: "mean squared error", mae: "mean absolute error",
  pearson: "Pearson correlation", spearman: "Spearman correlation", perplexity: "perplexity",
};
const SMALL_IS_GOOD = new Set(["loss", "mse", "mae", "perplexity"]);

function metricTitle(name) {
  return METRIC_TITLES[name] || name.replaceAll("_", " ");
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/// Four digits that count, plain where a plain number is short.
function number(value, digits = 4) {
  if (!isNumber(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return (value + 0).toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) {
    const [digitsOf, power] = value.toExponential(Math.max(digits - 2, 1)).split("e");
    return `${Number(digitsOf)}e${Number(power)}`;
  }
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
}

/// A metric, always with four places, so that columns can be compared.
function metricValue(value) {
  if (!isNumber(value)) return "–";
  return Math.abs(value) < 1000 && (Math.abs(value) >= 1e-4 || value === 0) ? value.toFixed(4) : number(value);
}

function percent(value, places = 1) {
  return isNumber(value) ? (100 * value).toFixed(places) + " %" : "–";
}

function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 60) return number(seconds, 3) + " s";
  const total = Math.round(seconds);
  const hours = Math.floor(total / 3600), minutes = Math.floor(total / 60) % 60;
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${total % 60} s`;
}

function megabytes(value) {
  if (!isNumber(value)) return "–";
  return value >= 2048 ? number(value / 1024, 3) + " GB" : number(Math.round(value)) + " MB";
}

/// A config's value in one line.
function plain(value) {
  if (value === null || value === undefined) return "unset";
  if (typeof value === "number") return number(value, 6);
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

/// {"train.epochs": 3, ...}; lists and empty objects stay whole.
function flatten(value, prefix = "", into = {}) {
  for (const [name, item] of Object.entries(value || {})) {
    const isSection = item !== null && typeof item === "object" && !Array.isArray(item) && Object.keys(item).length > 0;
    if (isSection) flatten(item, prefix + name + ".", into);
    else into[prefix + name] = item;
  }
  return into;
}
