// Making elements. Texts of runs go through text nodes only, so that nothing in them is ever markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/// element("td", {class: "number"}, "1", ...): attributes that are null or false are left out, `onclick` is a listener.
function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

let lastId = 0;
function freshId(stem) {
  lastId += 1;
  return stem + "-" + lastId;
}

/// A table's caption, which stays in sight where the table is wider than the screen.
function captionOf(text) {
  return element("caption", {}, element("span", {}, text));
}

/// Appends what there is; null is nothing.
function put(node, ...children) {
  return fill(node, null, children);
}

/// Tells a screen reader.
function announce(text) {
  document.getElementById("live").textContent = text;
}

/// A details element whose content is made when it is opened for the first time.
function unfolded(summary, make) {
  const node = element("details", {}, element("summary", {}, summary));
  node.addEventListener("toggle", () => {
    if (node.open && node.childElementCount === 1) node.append(make());
  });
  return node;
}

function panel(title, ...children) {
  return element("section", {class: "panel"}, title ? element("h3", {}, title) : null, children);
}

function widePanel(title, ...children) {
  const node = panel(title, ...children);
  node.classList.add("wide");
  return node;
}

/// A labelled control: the label names it and is clickable.
function labelled(text, control, after) {
  return element("label", {}, text, control, after);
}

function select(options, chosen, change) {
  const node = element("select", {onchange: () => change(node.value)},
                       options.map(([value, text]) => element("option", {value, selected: value === chosen}, text)));
  return node;
}
