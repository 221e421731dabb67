// The milestones as a timeline: how long each step took, aggregated by the server.

import { lineChart } from "../charts.js";
import { empty, figures, h, note, section, table } from "../dom.js";
import { count, duration, plural, time } from "../format.js";
import { heldPromotions } from "../holds.js";

const STEPS = {
  written: "epoch started → rows written",
  committed: "written → milestone",
  applied: "milestone → view",
  published: "milestone → output",
};
const COLUMNS = 300;

export const milestones = {
  id: "milestones",
  title: "Milestones",
  live: true,
  load: (context) =>
    context.ask("milestones", { from: context.query.get("from"), to: context.query.get("to"), columns: COLUMNS }),
  render: (data, context) => {
    if (!data.kept) return empty("No milestone was read yet.");
    return [
      figures(
        ["Shown", `${count(data.count)} of ${plural(data.kept, "milestone")}`],
        ["From", time(data.first?.committed_ms)],
        ["To", time(data.last?.committed_ms)],
      ),
      heldPromotions(data.holds),
      controls(context),
      data.count ? h("div", { id: "latency" }) : empty("No milestone was committed in this range."),
      note("Each point is the median, or the maximum, of a slice of time. Select a range in the chart to look closer."),
      section("Latency by step", steps(data)),
      section("Newest milestones", newest(data)),
    ];
  },
  mount: (page, data, context) => {
    const into = page.querySelector("#latency");
    if (!into) return null;
    const of = context.query.get("of") === "max" ? "max" : "median";
    const shown = Object.keys(STEPS).filter((name) => data.summary[name].known);
    return lineChart(into, {
      times: data.at,
      series: shown.map((name) => ({ name, values: data.steps[name][of] })),
      format: duration,
      zoomed: (from, to) => context.go({ ...kept(context), from, to }),
      label: `${of === "max" ? "Maximum" : "Median"} latency of ${shown.join(", ")} over time; the table below has the figures`,
    });
  },
};

const kept = (context) => ({ of: context.query.get("of"), from: context.query.get("from"), to: context.query.get("to") });

function controls(context) {
  const max = context.query.get("of") === "max";
  const choose = (of) => () => context.go({ ...kept(context), of });
  return h(
    "p",
    { class: "controls" },
    h("button", { type: "button", id: "median", "aria-pressed": String(!max), on: { click: choose("") } }, "Median"),
    h("button", { type: "button", id: "max", "aria-pressed": String(max), on: { click: choose("max") } }, "Maximum"),
    h(
      "button",
      { type: "button", id: "all", disabled: !context.query.get("from"), on: { click: () => context.go({ of: context.query.get("of") }) } },
      "Show all",
    ),
  );
}

function steps(data) {
  const rows = Object.entries(STEPS).filter(([name]) => data.publishes || name !== "published");
  return [
    table(
      "Latency by step, of the milestones shown",
      [
        { name: "step", of: ([name]) => name },
        { name: "from → to", of: ([, what]) => what },
        { name: "known", number: true, of: ([name]) => count(data.summary[name].known) },
        { name: "median", number: true, of: ([name]) => duration(data.summary[name].median) },
        { name: "99th percentile", number: true, of: ([name]) => duration(data.summary[name].p99) },
        { name: "maximum", number: true, of: ([name]) => duration(data.summary[name].max) },
      ],
      rows,
    ),
    note(
      "The time of applied is known only since this console runs, to about a second: the view's position is on no topic. " +
        "The time of published is known for as long as the publisher's positions are kept.",
    ),
  ];
}

function newest(data) {
  const step = (name) => ({ name, number: true, of: (one) => duration(one.steps[name]) });
  const number = (name) => ({ name, number: true, of: (one) => count(one[name]) });
  const columns = [
    { name: "token", of: (one) => h("code", null, one.token) },
    { name: "committed", of: (one) => time(one.committed_ms) },
    ...["events", "rows", "late", "rejected"].map(number),
    ...Object.keys(STEPS).filter((name) => data.publishes || name !== "published").map(step),
  ];
  return table(`The newest ${data.newest.length} milestones`, columns, data.newest);
}
