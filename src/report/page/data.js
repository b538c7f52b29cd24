// The rows that a run saw: lengths, and how often each label occurs.

function lengthsPanel(run, data) {
  const splits = Object.entries(data).filter(([, split]) => split.lengths && split.lengths.counts.length > 0);
  if (splits.length === 0) return null;
  const place = element("div", {});
  const limit = ((run.config || {}).data || {}).max_length;
  const show = (name) => {
    const {lengths, rows, tokens, truncated} = data[name];
    const bars = lengths.counts.map((count, i) => ({
      name: lengths.width === 1 ? String(i + 1) : `${i * lengths.width + 1}`, values: [count]}));
    const mean = tokens / Math.max(rows, 1);
    const cut = truncated > 0 ? `${number(truncated)} were cut to ${limit} tokens.` : "None was cut off.";
    const label = `Lengths of ${name}: ${number(rows)} rows of ${number(mean, 3)} tokens on average. ${cut}`;
    place.replaceChildren(element("p", {}, `${number(rows)} rows, ${number(mean, 3)} tokens on average. ${cut}`),
      barChart(label, bars, {titleX: "tokens a row, from"}),
      unfolded("The values as a table", () => scrolled("Lengths", element("table", {}, captionOf(label),
        element("thead", {}, element("tr", {}, ["tokens", "rows"].map((t) => element("th", {scope: "col", class: "number"}, t)))),
        element("tbody", {}, lengths.counts.map((count, i) => element("tr", {},
          element("th", {scope: "row", class: "number"}, `${i * lengths.width + 1} to ${(i + 1) * lengths.width}`),
          element("td", {class: "number"}, number(count)))))))));
  };
  show(splits[0][0]);
  return panel("Lengths", splits.length > 1 ? element("div", {class: "bar"},
    labelled("Of ", select(splits.map(([name]) => [name, name]), splits[0][0], show))) : null, place);
}

function balancePanel(data) {
  const splits = Object.entries(data).filter(([, split]) => split.labels && Object.keys(split.labels).length > 0);
  if (splits.length === 0) return valuesPanel(data);
  const totals = Object.fromEntries(splits.map(([name, {labels}]) => [name, Object.values(labels).reduce((a, b) => a + b, 0)]));
  const most = Math.max(...Object.values(splits[0][1].labels), 1);
  const rows = Object.keys(splits[0][1].labels).map((label) => ({label, counts: splits.map(([, {labels}]) => labels[label])}));
  const columns = [{title: "label", key: (r) => r.label, header: true},
                   {title: "", className: "share", cell: (r) => bar(r.counts[0] / most)}];
  splits.forEach(([name], i) => columns.push({title: name, key: (r) => r.counts[i], number: true,
    cell: (r) => [number(r.counts[i]), element("span", {class: "quiet"}, ` ${percent(r.counts[i] / Math.max(totals[name], 1))}`)]}));
  const {table, made} = sortedTable(`How often each label occurs; the bar is of ${splits[0][0]}`, columns, rows);
  return panel("Label balance", rows.length > 12 ? filterField("Find", made) : null, scrolled("Label balance", table));
}

function valuesPanel(data) {
  const splits = Object.entries(data).filter(([, split]) => split.values && split.values.counts.length > 0);
  if (splits.length === 0) return null;
  const [name, {values}] = splits[0];
  const bars = values.counts.map((count, i) => ({name: number(values.first + i * values.width, 3), values: [count]}));
  return panel("Labels", barChart(`Numbers to learn, of ${name}: how many rows have each`, bars, {titleX: "from"}),
    unfolded("The values as a table", () => scrolled("Labels", element("table", {}, captionOf(`Numbers to learn, of ${name}`),
      element("thead", {}, element("tr", {}, ["from", "rows"].map((t) => element("th", {scope: "col", class: "number"}, t)))),
      element("tbody", {}, bars.map((b) => element("tr", {}, element("th", {scope: "row", class: "number"}, b.name),
                                                   element("td", {class: "number"}, number(b.values[0])))))))));
}

function dataSection(run) {
  const data = (run.details || {}).data || {};
  return [balancePanel(data), lengthsPanel(run, data)].filter(Boolean);
}

function configSection(run) {
  const facts = Object.entries(flatten(run.config)).map(([name, value]) => [name, plain(value)]);
  const environment = Object.entries(flatten(run.start)).filter(([name]) => name !== "event").map(([name, value]) => [name, plain(value)]);
  const make = (title, rows) => rows.length === 0 ? null : panel(title, scrolled(title, factTable(title, rows)));
  return [make("Config", facts), make("Environment", environment)].filter(Boolean);
}
