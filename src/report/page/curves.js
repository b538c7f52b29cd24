// Curves over steps or epochs: several series in one chart, a cursor by pointer or keys, and the same values as a table.

/// What all curves of the page follow.
const curveSettings = {smoothing: 0.6, axis: "step", log: false, hidden: new Set()};
const curves = new Set();
function redrawCurves() {
  for (const chart of curves) {
    if (chart.picture.isConnected) chart.redraw();
    else curves.delete(chart);  // another took its place
  }
}

const LEAST_ROWS_TO_THIN = 400;

class Curves {
  /// series: [{name, style, run, step: [], epoch: [], y: [], marker, raw}]; raw: is never smoothed.
  /// format: of values; loss: may be drawn on a logarithmic scale.
  constructor(title, series, {format = number, loss = false, height = 250} = {}) {
    Object.assign(this, {title, series, format, loss, height, at: -1});
    this.tip = element("div", {class: "tip", "aria-hidden": "true", hidden: true});
    const {figure, picture, redraw} = drawing(this.describe(), (node, width) => this.draw(node, width));
    this.picture = picture;
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("keydown", (event) => this.key(event));
    picture.addEventListener("pointermove", (event) => this.point(event));
    picture.addEventListener("pointerdown", (event) => this.point(event));
    picture.addEventListener("pointerleave", () => this.moveTo(-1));
    picture.addEventListener("blur", () => this.moveTo(-1));
    figure.append(this.tip);
    this.redraw = redraw;
    curves.add(this);
    this.node = panel(title, figure, this.keys(), unfolded("The values as a table", () => this.table()));
  }

  describe() {
    const parts = this.series.slice(0, 10).map((s) => {
      const known = s.y.filter(isNumber);
      if (known.length === 0) return `${s.name}: no value`;
      return `${s.name}: ${this.format(known[0])} at first, ${this.format(known[known.length - 1])} at last, ` +
          `least ${this.format(Math.min(...known))}, greatest ${this.format(Math.max(...known))}`;
    });
    return `${this.title}. ${parts.join(". ")}. Left and right arrow keys read the values.`;
  }

  keys() {
    if (this.series.length < 2) return null;
    return element("div", {}, this.series.map((s) => element("span", {class: "key"}, swatch(s.style, s.marker), s.name)));
  }

  visible() {
    return this.series.filter((s) => !curveSettings.hidden.has(s.run));
  }

  draw(picture, width) {
    const height = this.height;
    const box = {left: 56, right: width - 12, top: 10, bottom: height - 38};
    const axis = curveSettings.axis, log = this.loss && curveSettings.log;
    this.drawn = this.visible().map((s) => ({...s, x: s[axis], line: s.raw ? s.y : smoothed(s.y, curveSettings.smoothing)}));
    const ys = this.drawn.flatMap((s) => s.y);
    const x = scale(this.drawn.flatMap((s) => s.x), box.left, box.right,
                    {count: Math.max(2, Math.floor(width / 90)), pad: 0.01, whole: axis === "step"});
    const y = scale(ys, box.bottom, box.top, {log, count: 5});
    picture.append(...axes(box, x, y, (v) => number(v), this.format === metricValue ? number : this.format, axis));
    for (const s of this.drawn) this.drawSeries(picture, s, x, y);
    this.cursor = svg("g", {});
    picture.append(this.cursor);
    this.places = {x, y, box, width};
    this.xs = [...new Set(this.drawn.flatMap((s) => s.x.filter(isNumber)))].sort((a, b) => a - b);
    this.moveTo(-1);
    return height;
  }

  drawSeries(picture, s, x, y) {
    const {class: name, dash} = styleOf(s.style);
    if (s.line !== s.y) picture.append(svg("path", {class: "raw " + name, d: pathOf(s.x, s.y, x.place, y.place)}));
    picture.append(svg("path", {class: "line " + name, "stroke-dasharray": dash || null, d: pathOf(s.x, s.line, x.place, y.place)}));
    const alone = s.y.filter(isNumber).length === 1;
    if (!s.marker && !alone) return;
    if (s.y.length > 60 && !alone) return;
    s.x.forEach((value, i) => {
      const at = isNumber(s.line[i]) ? y.place(s.line[i]) : NaN;
      if (Number.isFinite(at)) picture.append(svg("circle", {class: name, cx: x.place(value), cy: at, r: 3}));
    });
  }

  /// The nearest value of each series at one place of the x axis; what lies far from it is left out.
  valuesAt(value) {
    const found = [];
    for (const s of this.drawn) {
      let best = -1;
      s.x.forEach((x, i) => {
        if (isNumber(x) && isNumber(s.y[i]) && (best < 0 || Math.abs(x - value) < Math.abs(s.x[best] - value))) best = i;
      });
      if (best < 0) continue;
      const span = this.xs[this.xs.length - 1] - this.xs[0];
      if (Math.abs(s.x[best] - value) <= Math.max(span * 0.03, 1e-9)) found.push({s, i: best});
    }
    return found;
  }

  moveTo(index) {
    this.at = index;
    if (!this.cursor) return "";
    this.cursor.replaceChildren();
    this.tip.hidden = index < 0;
    if (index < 0) return "";
    const value = this.xs[index], {x, y, box, width} = this.places;
    const at = x.place(value), found = this.valuesAt(value);
    this.cursor.append(svg("line", {class: "cursor", x1: at, x2: at, y1: box.top, y2: box.bottom}));
    const rows = found.map(({s, i}) => {
      const shown = s.line[i];
      if (Number.isFinite(y.place(shown))) {
        this.cursor.append(svg("circle", {class: styleOf(s.style).class, cx: x.place(s.x[i]), cy: y.place(shown), r: 4}));
      }
      const raw = s.line === s.y ? null : element("span", {class: "quiet"}, ` (${this.format(s.y[i])})`);
      return element("div", {}, this.series.length > 1 ? swatch(s.style) : null, " ",
                     this.series.length > 1 ? s.name + " " : "", element("b", {}, this.format(shown)), raw);
    });
    this.tip.replaceChildren(element("div", {class: "quiet"}, `${curveSettings.axis} ${number(value)}`), ...rows);
    const right = at > width / 2;
    this.tip.style.left = right ? "" : `${at + 10}px`;
    this.tip.style.right = right ? `${width - at + 10}px` : "";
    return `${curveSettings.axis} ${number(value)}: ` + found.map(({s, i}) => `${s.name} ${this.format(s.y[i])}`).join(", ");
  }

  point(event) {
    if (!this.places || this.xs.length === 0) return;
    const bounds = this.picture.getBoundingClientRect();
    const at = (event.clientX - bounds.left) * this.places.width / bounds.width;
    let best = 0;
    this.xs.forEach((value, i) => {
      if (Math.abs(this.places.x.place(value) - at) < Math.abs(this.places.x.place(this.xs[best]) - at)) best = i;
    });
    this.moveTo(best);
  }

  key(event) {
    const last = this.xs.length - 1;
    const to = {ArrowRight: Math.min(this.at + 1, last), ArrowLeft: this.at < 0 ? last : Math.max(this.at - 1, 0), Home: 0, End: last,
                PageDown: Math.min(this.at + 10, last), PageUp: Math.max(this.at - 10, 0)}[event.key];
    if (event.key === "Escape") this.moveTo(-1);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    announce(this.moveTo(to));
  }

  table() {
    const steps = [...new Set(this.series.flatMap((s) => s.step))].sort((a, b) => a - b);
    const every = Math.ceil(steps.length / LEAST_ROWS_TO_THIN);
    const shown = steps.filter((_, i) => i % every === 0 || i === steps.length - 1);
    const rows = this.series.map((s) => new Map(s.step.map((step, i) => [step, s.y[i]])));
    const caption = this.title + (every > 1 ? `, every ${every}th of ${number(steps.length)} steps` : "");
    return scrolled(caption, element("table", {}, captionOf(caption),
      element("thead", {}, element("tr", {}, element("th", {scope: "col", class: "number"}, "step"),
                                   this.series.map((s) => element("th", {scope: "col", class: "number"}, s.name)))),
      element("tbody", {}, shown.map((step) => element("tr", {}, element("th", {scope: "row", class: "number"}, number(step)),
        rows.map((values) => element("td", {class: "number"}, values.has(step) ? this.format(values.get(step)) : "")))))));
  }
}

/// The controls that all curves follow.
function curveControls(canLog) {
  const output = element("output", {}, String(curveSettings.smoothing));
  const slider = element("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: curveSettings.smoothing, oninput: () => {
    curveSettings.smoothing = Number(slider.value);
    output.textContent = slider.value;
    redrawCurves();
  }});
  const axis = select([["step", "steps"], ["epoch", "epochs"]], curveSettings.axis, (value) => {
    curveSettings.axis = value;
    redrawCurves();
  });
  const log = element("input", {type: "checkbox", onchange: () => {
    curveSettings.log = log.checked;
    redrawCurves();
  }});
  return element("div", {class: "bar"}, labelled("Smoothing ", slider, output), labelled("Over ", axis),
                 canLog ? labelled(log, "logarithmic loss") : null);
}
