// Elements made and kept up to date. Text from the API becomes text and nothing else: there is no markup from
// strings anywhere. Elements are kept over updates (by key), so that focus, selection and scrolling stay.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const make = (tag, attributes = {}, ...children) => dress(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => dress(document.createElementNS(SVG, tag), attributes, children);

function show(element, text) {
  const wanted = String(text ?? "");
  if (element.textContent !== wanted) element.textContent = wanted;
  return element;
}

function attribute(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** A number as text, with its exact value in `data-value` and, with the unit, in the tooltip. */
function quantity(element, format, value, unit = "") {
  show(element, format(value));
  attribute(element, "data-value", known(value) ? value : "");
  attribute(element, "title", known(value) ? `${value}${unit && " "}${unit}` : "not known");
  return element;
}

function visible(element, yes) {
  if (element.hidden === yes) element.hidden = !yes;
}

/** Makes the children of `parent` those of `items`, in their order; one that stays keeps its element. */
function each(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of [...parent.children]) old.set(child.itemKey, child);
  let place = parent.firstElementChild;
  for (const [index, item] of items.entries()) {
    const key = keyOf(item, index);
    let child = old.get(key);
    if (child) {
      old.delete(key);
    } else {
      child = create(item);
      child.itemKey = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item, index);
  }
  for (const child of old.values()) child.remove();
}

/** A table inside a box that scrolls sideways where it must. `columns`: [heading, class, description]. */
function table(label, columns) {
  const body = make("tbody");
  const heads = columns.map(([heading, kind, why]) => make("th", { scope: "col", class: kind, title: why }, heading));
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  return { box, body };
}

/** A row whose cells are found by name: `row.cells_.lag`. The first is its heading. */
function row(names, kinds = {}) {
  const line = make("tr");
  line.cells_ = {};
  names.forEach((name, index) => {
    const cell = make(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: kinds[name] ?? "number", "data-field": name });
    line.cells_[name] = cell;
    line.append(cell);
  });
  return line;
}

/** A bar beside a number: decoration, since the number says it. */
function bar(kind = "") {
  const fill = make("i");
  const box = make("span", { class: `bar ${kind}`, "aria-hidden": "true" }, fill);
  box.fill_ = (portion) => fill.style.setProperty("width", `${(Math.min(Math.max(portion || 0, 0), 1) * 100).toFixed(1)}%`);
  return box;
}

/** A level-three section of a job. */
function card(title, kind, ...children) {
  const heading = make("h4", {}, title);
  heading.id = `title-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return make("section", { class: `card ${kind}`, "aria-labelledby": heading.id }, heading, ...children);
}
