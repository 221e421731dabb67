// Builds elements. Text is always text: nothing from the server is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "width%") element.style.width = `${value}%`;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A table. `columns`: {name, of: row => text or element, number}. Wide tables scroll in a region that takes focus.
export function table(caption, columns, rows, label = caption) {
  const head = columns.map((one) => h("th", { scope: "col", class: one.number && "number" }, one.name));
  const body = rows.map((row) =>
    h("tr", null, columns.map((one, at) => cell(one, row, at === 0))),
  );
  return h(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    h("table", null, h("caption", null, caption), h("thead", null, h("tr", null, head)), h("tbody", null, body)),
  );
}

function cell(column, row, first) {
  const made = column.of(row);
  const shown = made === null || made === undefined || made === "" ? "–" : made;
  const attributes = { class: column.number ? "number" : undefined, scope: first ? "row" : undefined };
  return h(first ? "th" : "td", attributes, shown);
}

// A number with a bar behind it; the number itself is the text.
export function bar(text, perMille) {
  const width = Math.max(0, Math.min(100, perMille / 10));
  return h("span", { class: "bar" }, h("span", { class: "bar-fill", "width%": width, "aria-hidden": "true" }), h("span", { class: "bar-text" }, text));
}

const TITLES = {
  unavailable: "The brokers or the rehydrator do not answer",
  unknown: "This job does not run here",
  usage: "This cannot be shown",
  gone: "The console does not answer",
  token: "The token is missing or wrong",
};

// An error with a button to try again.
export function problemBox(problem, again) {
  return h(
    "div",
    { class: "error", role: "alert" },
    h("h3", null, TITLES[problem.kind] ?? "This page failed"),
    h("p", null, problem.message),
    h("button", { type: "button", id: "retry", on: { click: again } }, "Try again"),
  );
}

export const empty = (text) => h("p", { class: "empty" }, text);
export const note = (text) => h("p", { class: "note" }, text);
export const section = (title, ...children) => h("section", null, h("h3", null, title), children);

// A row of figures: [name, value, unit].
export function figures(...every) {
  return h(
    "dl",
    { class: "figures" },
    every.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value ?? "unknown"))),
  );
}

// The colour that a CSS variable has now, as the canvas needs it.
export function colour(name) {
  const probe = document.getElementById("probe") ?? document.body.appendChild(h("span", { id: "probe", hidden: true }));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
