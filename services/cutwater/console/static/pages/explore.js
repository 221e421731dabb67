// The windows of one key as a chart, at the newest or an older milestone, and their differences from another one.

import { Problem } from "../api.js";
import { lineChart } from "../charts.js";
import { empty, figures, h, note, problemBox, section, table } from "../dom.js";
import { count, duration, printable, time, value } from "../format.js";

const SHOWN_MAX = 3;
const ROWS_MAX = 500;

export const explore = {
  id: "explore",
  title: "Explore",
  live: false,
  load: (context) => (context.query.get("key") ? answered(context) : { no_key: true }),
  render: (data, context) => {
    if (data.no_key) return [form(context), empty("Enter a key to see its windows, for example one of the page Keys.")];
    if (data.problem) return [form(context), problemBox(data.problem, context.again)];
    return [form(context), answer(data, context)];
  },
  mount: (page, data, context) => {
    page.querySelector("#explore-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const given = Object.fromEntries(new FormData(event.target));
      const query = { ...given, against: context.query.get("against") };
      if (text(query) === text(asked(context))) context.again();
      else context.go(query);
    });
    page.querySelector("#compare-form")?.addEventListener("submit", (event) => {
      event.preventDefault();
      context.go({ ...asked(context), against: new FormData(event.target).get("against") });
    });
    const into = page.querySelector("#windows");
    if (!into) return null;
    const names = chosen(data, context);
    return lineChart(into, {
      times: data.starts_ms,
      series: series(data, names),
      format: value,
      label: `${names.join(", ")} of key ${printable(data.key)} by window; the table below has the values`,
    });
  },
};

const asked = (context) =>
  Object.fromEntries(["key", "from", "to", "at", "against"].map((name) => [name, context.query.get(name) ?? ""]).filter(([, of]) => of));

// The form stays with an error: the question may be what is wrong.
const answered = (context) =>
  context.ask("explore", asked(context)).catch((problem) => {
    if (!(problem instanceof Problem) || problem.kind === "token") throw problem;
    return { problem: { kind: problem.kind, message: problem.message } };
  });

const text = (query) => new URLSearchParams(Object.entries(query).filter(([, of]) => of)).toString();

const chosen = (data, context) => {
  const names = Object.keys(data.series);
  const wanted = context.query.getAll("show").filter((one) => names.includes(one));
  return wanted.length ? wanted : names.slice(0, SHOWN_MAX);
};

function series(data, names) {
  const found = names.map((name) => ({ name, values: data.series[name] }));
  if (!data.against) return found;
  const at = new Map(data.against.starts_ms.map((start, number) => [start, number]));
  const then = (name) => data.starts_ms.map((start) => data.against.series[name]?.[at.get(start)] ?? null);
  return [...found, ...names.map((name) => ({ name: `${name} at ${data.against.milestone.token}`, values: then(name) }))];
}

function form(context) {
  const input = (name, label, more = {}) =>
    h("label", { for: `explore-${name}` }, label, h("input", { id: `explore-${name}`, name, value: context.query.get(name) ?? "", ...more }));
  return h(
    "form",
    { id: "explore-form", class: "controls" },
    input("key", "Key", { required: true, maxlength: 4096, autocomplete: "off", spellcheck: "false" }),
    input("from", "From", { maxlength: 40, placeholder: "2026-01-01T00:00:00Z" }),
    input("to", "To", { maxlength: 40, placeholder: "2026-01-02T00:00:00Z" }),
    input("at", "At", { maxlength: 80, placeholder: "newest; a token or a time" }),
    h("button", { type: "submit" }, "Show"),
  );
}

function answer(data, context) {
  const at = figures(
    ["Milestone", h("code", null, data.milestone.token)],
    [data.at ? "Committed ago" : "Its age", duration(data.milestone.age_ms)],
    ["Windows", count(data.rows.length)],
  );
  if (!data.rows.length) return [at, empty(`The key ${printable(data.key)} has no windows at this milestone.`)];
  return [
    at,
    Object.keys(data.series).length ? [measures(data, context), h("div", { id: "windows" })] : empty("No measure of this job is a number."),
    data.more ? note(`Only the first ${count(data.rows.length)} windows are shown: narrow the range.`) : null,
    data.hint ? note(data.hint) : null,
    section("Compare", compare(data, context)),
    section("Windows", rows(data)),
  ];
}

function measures(data, context) {
  const names = chosen(data, context);
  const toggle = (name) => () => {
    const next = names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
    const query = new URLSearchParams(asked(context));
    for (const one of next) query.append("show", one);
    location.hash = `${context.link("explore")}?${query}`;
  };
  return h(
    "p",
    { class: "controls", role: "group", "aria-label": "Measures" },
    Object.keys(data.series).map((name, number) =>
      h("button", { type: "button", id: `measure-${number}`, "aria-pressed": String(names.includes(name)), on: { click: toggle(name) } }, name),
    ),
  );
}

function compare(data, context) {
  const tokens = data.shown_before;
  const pick = h(
    "label",
    { for: "against" },
    "With an answer that was shown",
    h(
      "select",
      { id: "against", disabled: !tokens.length, on: { change: (event) => context.go({ ...asked(context), against: event.target.value }) } },
      h("option", { value: "" }, tokens.length ? "choose a milestone" : "none at another milestone"),
      tokens.map((one) => h("option", { value: one, selected: one === data.against?.milestone.token }, one)),
    ),
  );
  const other = h(
    "form",
    { id: "compare-form", class: "controls" },
    h("label", { for: "other" }, "With the milestone", h("input", { id: "other", name: "against", maxlength: 80, value: context.query.get("against") ?? "", placeholder: "a token or a time" })),
    h("button", { type: "submit" }, "Compare"),
  );
  return [
    h("div", { class: "controls" }, pick, other),
    note(
      "An older milestone is rebuilt from the key's partition of the changelog, which takes some seconds. " +
        "The page Recovery lists the milestones that can be restored.",
    ),
    data.against ? differences(data) : null,
  ];
}

function differences(data) {
  const title = `${count(data.differences.length)} windows differ from ${data.against.milestone.token}`;
  if (!data.differences.length) return empty(`No window differs from ${data.against.milestone.token}.`);
  return table(
    title,
    [
      { name: "window from", of: (one) => time(one.start_ms) },
      { name: "is", of: (one) => one.is },
      {
        name: "before → after",
        of: (one) => Object.entries(one.values).map(([name, [old, now]]) => h("div", null, `${name}: ${value(old)} → ${value(now)}`)),
      },
    ],
    data.differences.slice(0, ROWS_MAX),
  );
}

function rows(data) {
  const names = Object.keys(data.rows[0]).filter((name) => name !== "key" && name !== "window_start");
  const shown = data.rows.slice(-ROWS_MAX);
  return table(
    shown.length < data.rows.length ? `The last ${count(shown.length)} windows` : "All windows",
    [
      { name: "window_start", of: (row) => String(row.window_start) },
      ...names.map((name) => ({ name, number: typeof shown[0][name] === "number", of: (row) => printable(value(row[name])) })),
    ],
    shown,
  );
}
