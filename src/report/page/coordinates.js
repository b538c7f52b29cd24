// Parallel coordinates: an axis for each setting that differs, the last one for the metric, a line for each run.

const LEAST_WIDTH_OF_AN_AXIS = 105;
const MOST_VALUES_MARKED = 4;  // each by its own mark; else round numbers are marked

/// An axis of numbers, or of names in their order. values: one a run.
function coordinateAxis(title, values, top, bottom) {
  const known = values.filter((value) => value !== null && value !== undefined && !Number.isNaN(value));
  if (known.length > 0 && known.every(isNumber)) {
    const low = Math.min(...known), high = Math.max(...known);
    const {place, marks} = scale(known, bottom, top, {log: low > 0 && high / low >= 8, count: 5, pad: 0.03});
    const distinct = [...new Set(known)];
    const marked = distinct.length <= MOST_VALUES_MARKED ? distinct : marks;
    return {title, place: (value) => isNumber(value) ? place(value) : NaN, marks: marked.map((mark) => [number(mark), place(mark)])};
  }
  const names = [...new Set(known.map(plain))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
  const place = (value) => bottom - (names.indexOf(plain(value)) + 0.5) / Math.max(names.length, 1) * (bottom - top);
  return {title, place: (value) => names.includes(plain(value)) ? place(value) : NaN, marks: names.map((name) => [name, place(name)])};
}

class Coordinates {
  constructor(comparison) {
    this.comparison = comparison;
    this.chosen = -1;
    const head = comparison.head;
    this.axes = [...comparison.keys.slice(0, 8).map((key) => ({title: shortKey(key, comparison.keys), of: (run) => configValue(run, key), text: setting})),
                 {title: "best " + metricTitle(head.name), of: (run) => bestValue(run, head), text: metricValue}];
    this.said = element("p", {class: "quiet"}, "Point at a line, or use the arrow keys, to read a run.");
    const best = comparison.runs[comparison.best];
    const label = `Parallel coordinates of ${this.axes.map((axis) => axis.title).join(", ")} for ${comparison.runs.length} runs. ` +
        (best ? `Best: ${this.describe(best)}. ` : "") + "Up and down arrow keys read the runs.";
    const {figure, picture, redraw} = drawing(label, (node, width) => this.draw(node, width));
    figure.style.minWidth = `${this.axes.length * LEAST_WIDTH_OF_AN_AXIS}px`;
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("keydown", (event) => this.key(event));
    picture.addEventListener("pointermove", (event) => this.point(event));
    picture.addEventListener("pointerdown", (event) => this.point(event));
    picture.addEventListener("pointerleave", () => this.choose(-1));
    comparison.listeners.push(redraw);
    this.picture = picture;
    this.node = widePanel(null, element("div", {class: "scroll"}, figure), this.said);
  }

  describe(run) {
    return `${run.name}: ` + this.axes.map((axis) => `${axis.title} ${axis.text(axis.of(run))}`).join(", ");
  }

  draw(picture, width) {
    const height = 300, top = 34, bottom = height - 12;
    const runs = this.comparison.runs;
    const left = 62, right = width - 70;
    const xs = this.axes.map((_, i) => this.axes.length > 1 ? left + i * (right - left) / (this.axes.length - 1) : width / 2);
    const drawn = this.axes.map((axis) => coordinateAxis(axis.title, runs.map(axis.of), top, bottom));
    this.lines = runs.filter((run) => !curveSettings.hidden.has(run.index)).map((run) => ({run, points: drawn.map((axis, i) => [xs[i], axis.place(this.axes[i].of(run))])}));
    for (const line of this.lines) {
      const {class: name, dash} = styleOf(line.run.index);
      line.node = svg("path", {class: "coordinate " + name, "stroke-dasharray": dash || null,
                               d: pathOf(line.points.map((p) => p[0]), line.points.map((p) => p[1]), (v) => v, (v) => v)});
      picture.append(line.node);
    }
    drawn.forEach((axis, i) => {
      picture.append(svg("line", {class: "axis", x1: xs[i], x2: xs[i], y1: top, y2: bottom, "stroke-width": 2}),
                     svg("text", {class: "value", x: xs[i], y: 14, "text-anchor": "middle"}, axis.title));
      const few = axis.marks.filter((_, k) => k % Math.ceil(axis.marks.length / 12) === 0);
      for (const [text, at] of few) {
        picture.append(svg("text", {x: xs[i] + 6, y: at + 4, stroke: "var(--panel)", "stroke-width": 3, "paint-order": "stroke"},
                           text.length > 14 ? text.slice(0, 13) + "…" : text));
      }
    });
    this.choose(-1);
    return height;
  }

  choose(index) {
    this.chosen = index;
    (this.lines || []).forEach((line, i) => {
      line.node.classList.toggle("faded", index >= 0 && i !== index);
      line.node.classList.toggle("chosen", i === index || (index < 0 && line.run.index === this.comparison.best));
    });
    this.said.textContent = index >= 0 ? this.describe(this.lines[index].run) : "Point at a line, or use the arrow keys, to read a run. The thick line is the best run's.";
    return this.said.textContent;
  }

  point(event) {
    const bounds = this.picture.getBoundingClientRect();
    const ratio = this.picture.viewBox.baseVal.width / bounds.width;
    const x = (event.clientX - bounds.left) * ratio, y = (event.clientY - bounds.top) * ratio;
    let best = -1, least = 24;
    this.lines.forEach((line, index) => {
      for (let i = 0; i + 1 < line.points.length; ++i) {
        const [[x1, y1], [x2, y2]] = [line.points[i], line.points[i + 1]];
        if (x < x1 - 8 || x > x2 + 8) continue;
        const share = Math.min(Math.max((x - x1) / (x2 - x1), 0), 1);
        const distance = Math.abs(y1 + share * (y2 - y1) - y);
        if (distance < least) [best, least] = [index, distance];
      }
    });
    this.choose(best);
  }

  key(event) {
    const count = this.lines.length;
    const by = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
    if (event.key === "Escape") this.choose(-1);
    if (!by || count === 0) return;
    event.preventDefault();
    announce(this.choose(this.chosen < 0 ? (by > 0 ? 0 : count - 1) : (this.chosen + by + count) % count));
  }
}
