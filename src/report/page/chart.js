// Drawing: scales, axes, line charts with a cursor, bars.

const NUM_STYLES = 8;
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

function styleOf(index) {
  return {class: "s" + (index % NUM_STYLES), dash: DASHES[Math.floor(index / NUM_STYLES) % DASHES.length]};
}

/// A short piece of a series' line, for keys.
function swatch(index, marker = false) {
  const {class: name, dash} = styleOf(index);
  return svg("svg", {viewBox: "0 0 26 10", "aria-hidden": "true"},
             svg("line", {class: "line " + name, x1: 1, y1: 5, x2: 25, y2: 5, "stroke-dasharray": dash || null}),
             marker ? svg("circle", {class: name, cx: 13, cy: 5, r: 3}) : null);
}

/// Round numbers from about `low` to about `high`.
function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999) || 10 * power;
  const result = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) result.push(k * step + 0);  // no -0
  return result;
}

function logTicks(low, high, count) {
  const result = [];
  const factors = Math.log10(high / low) > count / 2 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) result.push(value);
    }
  }
  return result.length > 1 ? result : [low, high];
}

/// A map from values to places, with its ticks. log: only where all values are above 0.
function scale(values, from, to, {log = false, count = 5, pad = 0.04, whole = false} = {}) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!isNumber(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [0, 1];
  const asLog = log && low > 0;
  if (low === high) [low, high] = asLog ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const forward = asLog ? Math.log10 : (value) => value;
  let [begin, end] = [forward(low), forward(high)];
  const margin = (end - begin) * pad;
  // Room above and below, but not below zero for what is never below it.
  begin = !asLog && low >= 0 ? Math.max(begin - margin, 0) : begin - margin;
  end += margin;
  const place = (value) => from + (forward(value) - begin) / (end - begin) * (to - from);
  let marks = asLog ? logTicks(low, high, count) : ticks(begin, end, count);
  if (whole) marks = marks.filter(Number.isInteger);
  return {place, marks};
}

/// Exponential moving average, without the bias to its first value (as TensorBoard's).
function smoothed(values, weight) {
  if (weight <= 0) return values;
  let last = 0, count = 0;
  return values.map((value) => {
    if (!isNumber(value)) return value;
    last = last * weight + (1 - weight) * value;
    count += 1;
    return last / (1 - weight ** count);
  });
}

/// An SVG path through points; a value that is no number interrupts it.
function pathOf(xs, ys, placeX, placeY) {
  let path = "", open = false;
  for (let i = 0; i < xs.length; ++i) {
    const y = isNumber(ys[i]) && isNumber(xs[i]) ? placeY(ys[i]) : NaN;
    if (!Number.isFinite(y)) {
      open = false;
      continue;
    }
    path += (open ? "L" : "M") + placeX(xs[i]).toFixed(1) + " " + y.toFixed(1);
    open = true;
  }
  return path;
}

/// Calls draw(width) now and whenever the node's width changes.
function onWidth(node, draw) {
  let width = 0;
  const check = () => {
    const now = Math.floor(node.clientWidth) || 560;
    if (now === width) return;
    width = now;
    draw(width);
  };
  requestAnimationFrame(check);
  // Drawing may change the node's height, so not within the observer's own turn.
  if (window.ResizeObserver) new ResizeObserver(() => requestAnimationFrame(check)).observe(node);
  return () => {
    width = 0;
    check();
  };
}

/// Horizontal or vertical axes with their grid.
function axes(box, x, y, formatX, formatY, titleX) {
  const nodes = [];
  for (const mark of y.marks) {
    const at = y.place(mark);
    nodes.push(svg("line", {class: "grid", x1: box.left, x2: box.right, y1: at, y2: at}),
               svg("text", {x: box.left - 6, y: at + 4, "text-anchor": "end"}, formatY(mark)));
  }
  for (const mark of x.marks) {
    const at = x.place(mark);
    nodes.push(svg("line", {class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4}),
               svg("text", {x: at, y: box.bottom + 16, "text-anchor": "middle"}, formatX(mark)));
  }
  nodes.push(svg("line", {class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
  if (titleX) nodes.push(svg("text", {x: box.right, y: box.bottom + 31, "text-anchor": "end"}, titleX));
  return nodes;
}

/// A figure that is drawn anew at each width. draw(svg, width) -> height.
function drawing(label, draw) {
  const picture = svg("svg", {role: "img", "aria-label": label});
  const figure = element("figure", {}, picture);
  const redraw = onWidth(figure, (width) => {
    picture.replaceChildren();
    const height = draw(picture, width);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  });
  return {figure, picture, redraw};
}

/// Vertical bars. bars: [{name, values: [number, ...]}]; format: of the values.
function barChart(label, bars, {format = number, titleX = "", height = 210, every = null} = {}) {
  return drawing(label, (picture, width) => {
    const box = {left: 52, right: width - 8, top: 10, bottom: height - 38};
    const y = scale([0, ...bars.flatMap((bar) => bar.values)], box.bottom, box.top, {count: 4});
    const slot = (box.right - box.left) / Math.max(bars.length, 1);
    const step = every || Math.max(1, Math.ceil(bars.length * 46 / (box.right - box.left)));
    picture.append(...axes(box, {marks: []}, y, String, format, titleX));
    bars.forEach((bar, i) => {
      const wide = Math.max(slot * 0.84 / bar.values.length, 1);
      bar.values.forEach((value, k) => {
        const at = y.place(value);
        picture.append(svg("rect", {class: "block" + (k > 0 ? " second" : ""), x: box.left + i * slot + slot * 0.08 + k * wide,
                                    y: at, width: wide, height: Math.max(box.bottom - at, 0)},
                           svg("title", {}, `${bar.name}: ${format(value)}`)));
      });
      if (i % step === 0) {
        picture.append(svg("text", {x: box.left + (i + 0.5) * slot, y: box.bottom + 16, "text-anchor": "middle"}, bar.name));
      }
    });
    return height;
  }).figure;
}
