// What an evaluation found: confusion, classes, calibration, errors.

const MOST_CLASSES_IN_A_MATRIX = 40;
const MOST_CLASSES_BESIDE = 7;  // of a matrix that stands beside something else

/// The names of the classes, in the order of the confusion matrix.
function classNames(metrics) {
  return Object.keys(metrics.per_class || {});
}

function confusionPanel(split, metrics) {
  const names = classNames(metrics), counts = metrics.confusion;
  if (!counts || counts.length !== names.length || names.length < 2) return null;
  const pairs = confusedPairs(names, counts);
  if (names.length > MOST_CLASSES_IN_A_MATRIX) {
    return widePanel(`Confusion, ${split}`, element("p", {class: "quiet"},
      `${names.length} classes: the pairs that are confused most often.`), pairs);
  }
  const totals = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const rows = counts.map((row, i) => element("tr", {}, element("th", {scope: "row"}, names[i]), row.map((count, j) => {
    const share = totals[i] > 0 ? count / totals[i] : 0;
    const strength = count === 0 ? 0 : 0.06 + 0.44 * share;
    return element("td", {class: i === j ? "diagonal" : null, style: `background: rgb(var(--heat) / ${strength.toFixed(3)})`,
                          title: `${names[i]}, taken for ${names[j]}: ${number(count)} (${percent(share)})`}, number(count));
  })));
  const caption = "Rows: the gold class. Columns: the answer. The darker, the larger the share of its row.";
  const long = names.length > 6 || names.some((name) => name.length > 8);
  const heads = names.map((name) => element("th", {scope: "col"}, long ? element("span", {}, name) : name));
  const make = names.length > MOST_CLASSES_BESIDE ? widePanel : panel;
  return make(`Confusion, ${split}`, scrolled(`Confusion matrix, ${split}`, element("table", {class: "matrix"},
    captionOf(caption), element("thead", {}, element("tr", {}, element("td", {}, ""), heads)),
    element("tbody", {}, rows))), pairs);
}

/// The most frequent mistakes as a table.
function confusedPairs(names, counts) {
  const found = [];
  counts.forEach((row, i) => row.forEach((count, j) => {
    if (i !== j && count > 0) found.push({gold: names[i], answer: names[j], count, share: count / row.reduce((a, b) => a + b, 0)});
  }));
  if (found.length === 0) return element("p", {}, "No answer is wrong.");
  found.sort((a, b) => b.count - a.count);
  return unfolded("The most frequent mistakes", () => sortedTable("Gold class and answer, the most frequent first", [
    {title: "gold", key: (r) => r.gold, header: true}, {title: "answer", key: (r) => r.answer},
    {title: "rows", key: (r) => r.count, cell: (r) => number(r.count), number: true},
    {title: "of the class", key: (r) => r.share, cell: (r) => percent(r.share), number: true},
  ], found.slice(0, 30), {full: false}).table);
}

function classesPanel(split, table, title) {
  const rows = Object.entries(table || {}).map(([name, scores]) => ({name, ...scores}));
  if (rows.length === 0) return null;
  const has = (field) => rows.some((row) => isNumber(row[field]));
  const score = (field, heading) => has(field) && {title: heading, key: (r) => r[field], cell: (r) => metricValue(r[field]), number: true};
  const columns = [
    {title: title.toLowerCase(), key: (r) => r.name, header: true}, score("precision", "precision"), score("recall", "recall"),
    score("f1", "F1"), has("f1") && {title: "", className: "share", cell: (r) => bar(r.f1)}, score("auc", "AUC"),
    {title: "rows", key: (r) => r.support, cell: (r) => number(r.support), number: true},
  ].filter(Boolean);
  const {table: node, made} = sortedTable(`Scores of each ${title.toLowerCase()} on ${split}; the bar is F1`, columns, rows);
  return panel(`By ${title.toLowerCase()}, ${split}`, rows.length > 12 ? filterField("Find", made) : null,
               scrolled(`Scores by ${title.toLowerCase()}, ${split}`, node));
}

function bar(share) {
  return element("i", {style: `width: ${(100 * (isNumber(share) ? share : 0)).toFixed(1)}%`});
}

/// Guo et al. 2017: the mean distance of probability and accuracy over the bins, weighted by their answers.
function calibrationError(bins) {
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  return total > 0 ? bins.reduce((sum, bin) => sum + bin.count * Math.abs(bin.score - bin.right), 0) / total : NaN;
}

function calibrationPanel(split, evaluation) {
  const bins = evaluation.calibration || [];
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  if (total === 0) return null;
  const error = calibrationError(bins), of = evaluation.kind === "label_sets" ? "labels hold" : "answers are right";
  const label = `Calibration on ${split}: how often ${of} against the probability given. Expected calibration error ` +
      `${percent(error)}. ` + bins.filter((b) => b.count > 0).map((b) => `At ${percent(b.score)}: ${percent(b.right)}`).join(". ");
  const {figure} = drawing(label, (picture, width) => {
    const height = 260, box = {left: 52, right: width - 20, top: 10, bottom: height - 38};
    const placeX = (v) => box.left + v * (box.right - box.left), placeY = (v) => box.bottom - v * (box.bottom - box.top);
    const marks = [0, 0.2, 0.4, 0.6, 0.8, 1];
    const asPercent = (v) => Math.round(100 * v) + " %";
    picture.append(...axes(box, {place: placeX, marks}, {place: placeY, marks}, asPercent, asPercent, "probability given"));
    bins.forEach((bin, i) => {
      if (bin.count === 0) return;
      const at = placeY(bin.right), wide = (box.right - box.left) / bins.length;
      picture.append(svg("rect", {class: "block", x: placeX(i / bins.length) + 2, width: wide - 4, y: at, height: box.bottom - at,
                                  opacity: 0.25 + 0.65 * Math.sqrt(bin.count / total)},
                         svg("title", {}, `${number(bin.count)} at ${percent(bin.score)}: ${percent(bin.right)}`)));
    });
    picture.append(svg("line", {class: "ideal", x1: placeX(0), y1: placeY(0), x2: placeX(1), y2: placeY(1)}));
    return height;
  });
  return panel(`Calibration, ${split}`, element("p", {}, `How often ${of}, by the probability that the model gave. Expected calibration error: `,
    element("b", {}, percent(error)), ". The darker a bar, the more answers."), figure,
    unfolded("The values as a table", () => scrolled("Calibration", element("table", {}, captionOf("Calibration, ten bins of probability"),
      element("thead", {}, element("tr", {}, ["probability", "answers", "mean probability", "right"].map((t) => element("th", {scope: "col", class: "number"}, t)))),
      element("tbody", {}, bins.map((bin, i) => element("tr", {}, element("th", {scope: "row", class: "number"}, `${i * 10} to ${i * 10 + 10} %`),
        [number(bin.count), bin.count ? percent(bin.score) : "–", bin.count ? percent(bin.right) : "–"].map((t) => element("td", {class: "number"}, t)))))))));
}

/// Wrong and surprising answers with their texts.
function errorsPanel(split, evaluation) {
  const lists = [["worst", "Largest loss"], ["confident", "Wrong and most confident"]]
      .filter(([name]) => (evaluation[name] || []).length > 0);
  if (evaluation.kind === "values" && lists.length > 0) lists[0][1] = "Largest error";
  if (lists.length === 0) return null;
  const place = element("div", {});
  const show = (name) => place.replaceChildren(...errorTable(split, evaluation.kind, lists.find((l) => l[0] === name), evaluation[name]));
  show(lists[0][0]);
  const choice = lists.length > 1 ? element("div", {class: "bar"}, labelled("Show ", select(lists, lists[0][0], show))) : null;
  return widePanel(`Errors, ${split}`, choice, place);
}

function errorTable(split, kind, [, title], answers) {
  const where = (r) => r.file ? `${r.file}:${r.line > 0 ? r.line : r.row + 1}` : `row ${r.row + 1}`;
  const text = (r) => r.text === undefined ? element("span", {class: "quiet"}, "(the row was not found again)")
      : r.text_pair === undefined ? r.text : [r.text, element("hr", {}), r.text_pair];
  const score = {title: kind === "label_sets" ? "probability" : "confidence", key: (r) => r.score, cell: (r) => percent(r.score), number: true};
  const columns = {
    classes: [{title: "gold", key: (r) => r.gold}, {title: "answer", key: (r) => r.predicted}, score,
              {title: "loss", key: (r) => r.error, cell: (r) => number(r.error, 3), number: true}],
    label_sets: [{title: "label", key: (r) => r.label}, {title: "gold", key: (r) => r.gold ? "holds" : "does not hold"}, score,
                 {title: "error", key: (r) => r.error, cell: (r) => number(r.error, 3), number: true}],
    values: [{title: "gold", key: (r) => r.gold, cell: (r) => number(r.gold), number: true},
             {title: "answer", key: (r) => r.predicted, cell: (r) => number(r.predicted), number: true},
             {title: "error", key: (r) => r.error, cell: (r) => number(r.error, 3), number: true}],
  }[kind] || [];
  const {table, made} = sortedTable(`${title} on ${split}: ${answers.length} answers`, [
    {title: "text", key: (r) => r.text, cell: text, className: "text"}, ...columns, {title: "place", key: where, header: true},
  ], answers);
  return [filterField("Find", made), scrolled(`${title}, ${split}`, table)];
}

function evaluationSection(run) {
  const splits = splitMetrics(run), details = (run.details || {}).evaluations || {};
  const panels = [];
  for (const split of new Set([...splits.map(([name]) => name), ...Object.keys(details)])) {
    const metrics = (splits.find(([name]) => name === split) || [])[1] || {}, evaluation = details[split] || {};
    const confusion = confusionPanel(split, metrics), isWide = confusion && confusion.classList.contains("wide");
    const beside = [classesPanel(split, metrics.per_type, "Type of entity"), classesPanel(split, metrics.per_class, "Class"),
                    isWide ? null : confusion, calibrationPanel(split, evaluation)].filter(Boolean);
    panels.push(scoresPanel(split, metrics), beside.length > 0 ? element("div", {class: "stack"}, beside) : null,
                isWide ? confusion : null, errorsPanel(split, evaluation));
  }
  return panels.filter(Boolean);
}

/// All single numbers of an evaluation.
function scoresPanel(split, metrics) {
  const scores = Object.entries(metrics).filter(([, value]) => isNumber(value));
  if (scores.length === 0) return null;
  return panel(`Scores, ${split}`, scrolled(`Scores, ${split}`, element("table", {class: "full"},
    captionOf(`Of the model that the run kept, on ${split}`),
    element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "metric"), element("th", {scope: "col", class: "number"}, "value"))),
    element("tbody", {}, scores.map(([name, value]) => element("tr", {}, element("th", {scope: "row"}, metricTitle(name)),
      element("td", {class: "number", "data-metric": `${split}.${name}`, "data-value": value}, metricValue(value))))))));
}
