// The page: reads the data in it, and puts the sections together.

function section(id, title, panels, before = null, level = "h2") {
  return element("section", {id, "aria-labelledby": id + "-title"}, element(level, {id: id + "-title", class: "heading"}, title), before,
                 element("div", {class: "panels"}, panels));
}

function contents(sections) {
  const nav = document.getElementById("contents");
  nav.replaceChildren(...sections.map(([id, title]) => element("a", {href: "#" + id}, title)));
}

function runSections(run) {
  const hasLoss = (run.train.loss || []).some(isNumber);
  return sectionsOf(run).map(([id, title, panels]) => section(id, title, panels, id === "curves" ? curveControls(hasLoss) : null));
}

function showOneRun(run) {
  put(document.getElementById("top"),
    element("div", {class: "title"}, element("h1", {}, run.name), statusBadge(run)),
    element("p", {class: "quiet"}, subtitle(run)), notesOf(run), figuresOf(run));
  const sections = runSections(run);
  document.getElementById("main").append(...sections);
  if (sections.length === 0) document.getElementById("main").append(element("p", {}, "Nothing is recorded of this run yet."));
  contents(sectionsOfPage(sections));
}

function sectionsOfPage(nodes) {
  return nodes.map((node) => [node.id, node.querySelector("h2").textContent]);
}

function subtitle(run) {
  const config = run.config || {};
  const last = (path) => String(path || "").split("/").filter(Boolean).slice(-1)[0];
  const parts = [((config.task || {}).type || "").replaceAll("_", " "), last((config.model || {}).path),
                 [].concat((config.data || {}).train || []).map(last).join(", "), (run.start || {}).time];
  if (run.resumes.length > 0) parts.push(`resumed at step ${run.resumes.map((s) => number(s)).join(", ")}`);
  return parts.filter(Boolean).join(" · ");
}

function showRuns(runs) {
  const comparison = new Comparison(runs);
  const notes = runs.filter((run) => run.problems.length > 0)
      .map((run) => element("li", {}, `${run.name}: ${run.problems.join("; ")}`));
  put(document.getElementById("top"), element("div", {class: "title"}, element("h1", {}, `${runs.length} runs`)),
    notes.length > 0 ? element("div", {class: "problems", role: "note"}, element("ul", {}, notes)) : null, comparison.figures());
  const sections = [section("runs", "Runs", [comparison.tablePanel()])];
  if (comparison.keys.length > 0) {
    sections.push(section("settings", "Settings against the result", [new Coordinates(comparison).node]));
  }
  sections.push(section("overlaid", "Curves", comparison.curvePanels(), curveControls(true)));
  sections.push(oneOfThem(comparison));
  document.getElementById("main").append(...sections);
  contents(sectionsOfPage(sections));
}

/// All that the page of one run has, of the run that is chosen.
function oneOfThem(comparison) {
  const {runs} = comparison;
  const place = element("div", {});
  const show = (index) => {
    const run = runs[index];
    place.replaceChildren();
    put(place, element("div", {class: "title"}, element("h3", {}, run.name), statusBadge(run)),
        element("p", {class: "quiet"}, subtitle(run)), notesOf(run), figuresOf(run),
        sectionsOf({...run, index: -1}).map(([id, title, panels]) => section("run-" + id, title, panels, null, "h3")));
  };
  const first = Math.max(comparison.best, 0);
  show(first);
  return element("section", {id: "one", "aria-labelledby": "one-title"}, element("h2", {id: "one-title"}, "One run"),
    element("div", {class: "bar"}, labelled("Run ", select(runs.map((run, i) => [String(i), run.name]), String(first), (value) => show(Number(value))))),
    place);
}

/// Names that several folders share get their folders before them.
function nameApart(runs) {
  const count = new Map();
  for (const run of runs) count.set(run.name, (count.get(run.name) || 0) + 1);
  for (const run of runs) if (count.get(run.name) > 1) run.name = run.folder;
}

function showPage() {
  const {runs, version, written} = JSON.parse(document.getElementById("records").textContent);
  runs.forEach((run, index) => { run.index = index; });
  nameApart(runs);
  if (runs.length === 1) showOneRun(runs[0]);
  else showRuns(runs);
  document.getElementById("foot").append(`Written by finetune ${version} at ${written}.`);
  document.documentElement.dataset.ready = "yes";
}

window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
});
showPage();
