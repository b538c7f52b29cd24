// Tables that can be sorted, and filtered by what their rows say.

/// A region that scrolls, and can be reached by keys.
function scrolled(label, ...children) {
  return element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label}, children);
}

/// Rows without a value come last, whichever way.
function compareValues(a, b, descending) {
  const missing = (v) => v === null || v === undefined || Number.isNaN(v);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
  return descending ? -order : order;
}

/// columns: [{title, key(row) -> value to sort by, cell(row) -> what to show, number, className, header}].
/// row(row) -> attributes of its tr.
function sortedTable(caption, columns, rows, {attributes = () => ({}), full = true, sortBy = null} = {}) {
  const body = element("tbody", {});
  const made = rows.map((row) => ({row, node: element("tr", attributes(row), columns.map((column) => {
    const kind = [column.number ? "number" : "", column.className || ""].join(" ").trim() || null;
    const cell = column.cell ? column.cell(row) : column.key(row);
    return column.header ? element("th", {scope: "row", class: kind}, cell) : element("td", {class: kind}, cell);
  }))}));
  const heads = columns.map((column) => {
    const button = element("button", {type: "button", onclick: () => sort(column)}, column.title);
    return element("th", {scope: "col", class: column.number ? "number" : null}, column.key ? button : column.title);
  });
  let sorted = null, descending = false;
  const sort = (column, aloud = true) => {
    // Numbers are read from the largest down at first, names from A.
    descending = sorted === column ? !descending : Boolean(column.number) && !column.smallFirst;
    sorted = column;
    made.sort((a, b) => compareValues(column.key(a.row), column.key(b.row), descending));
    body.replaceChildren(...made.map((m) => m.node));
    columns.forEach((c, i) => {
      if (c === column) heads[i].setAttribute("aria-sort", descending ? "descending" : "ascending");
      else heads[i].removeAttribute("aria-sort");
    });
    if (aloud) announce(`sorted by ${column.title}, ${descending ? "largest first" : "smallest first"}`);
  };
  body.append(...made.map((m) => m.node));
  if (sortBy) sort(sortBy, false);
  const table = element("table", {class: full ? "full" : null}, captionOf(caption),
                        element("thead", {}, element("tr", {}, heads)), body);
  return {table, made};
}

/// A field that hides the rows which do not hold all of its words. changed(rows that are left).
function filterField(label, made, changed = () => {}) {
  const count = element("span", {class: "quiet", "aria-live": "polite"}, `${made.length} of ${made.length}`);
  const field = element("input", {type: "search", oninput: () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = [];
    for (const entry of made) {
      const text = entry.node.textContent.toLowerCase();
      const shown = words.every((word) => text.includes(word));
      entry.node.classList.toggle("hidden", !shown);
      if (shown) left.push(entry.row);
    }
    count.textContent = `${left.length} of ${made.length}`;
    changed(left);
  }});
  return element("div", {class: "bar"}, labelled(label + " ", field), count);
}

/// A two-column table of names and values.
function factTable(caption, facts) {
  return element("table", {class: "full config"}, captionOf(caption),
    element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "name"), element("th", {scope: "col"}, "value"))),
    element("tbody", {}, facts.map(([name, value]) => element("tr", {}, element("th", {scope: "row"}, element("code", {}, name)),
                                                              element("td", {}, value)))));
}
