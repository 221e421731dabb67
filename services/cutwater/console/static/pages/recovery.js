// The restorable range, the audit log, and the recovery trail: what each start found, decided, and how long it took.

import { actionRow } from "../actions.js";
import { empty, h, note, section, svg, table } from "../dom.js";
import { bytes, count, duration, printable, time } from "../format.js";

export const recovery = {
  id: "recovery",
  title: "Recovery",
  live: false,
  load: async (context) => {
    const [trail, restorable, audit] = await Promise.all([
      context.ask("recovery"),
      settled(context.ask("restorable")),
      settled(context.ask("audit")),
    ]);
    return { trail, restorable, audit };
  },
  render: ({ trail, restorable, audit }, context) => [
    section("Restorable milestones", snapshot(context), range(restorable)),
    section("Audit log", log(audit)),
    section("Recovery trail", trail.empty ? empty(trail.empty) : starts(trail.starts)),
  ],
};

// The trail is shown even if an object store does not answer.
const settled = (asked) =>
  asked.catch((error) => {
    if (error.name === "AbortError") throw error;
    return { problem: error.message };
  });

const snapshot = (context) =>
  actionRow(
    context.button({
      action: "snapshots create",
      name: context.job,
      label: "Take a snapshot",
      says: "The rehydrator takes a snapshot of its milestone now, and uploads it.",
    }),
  );

function log(data) {
  if (data.problem) return h("p", { class: "error", role: "alert" }, data.problem);
  if (data.empty) return empty(data.empty);
  return [data.unreadable && note(data.unreadable), data.actions.length > 0 && actions(data.actions)];
}

const OUTCOMES = { done: "ok", failed: "alert", begun: "behind" };
const actions = (every) =>
  table(
    `The newest ${every.length} actions of operators`,
    [
      { name: "begun", of: (one) => time(one.begun_ms) },
      { name: "who", of: (one) => printable(one.role ? `${one.actor} (${one.role})` : one.actor) },
      { name: "action", of: (one) => printable(one.action) },
      { name: "object", of: (one) => printable(one.object) },
      { name: "outcome", of: (one) => h("span", { class: `state ${OUTCOMES[one.outcome] ?? "behind"}` }, one.outcome === "begun" ? "no outcome" : one.outcome) },
      { name: "what came of it", of: (one) => printable(one.detail) },
      { name: "given", of: (one) => printable(one.arguments.map((each) => `${each.name} ${each.value}`).join(", ")) },
    ],
    every,
  );

function range(data) {
  if (data.problem) return h("p", { class: "error", role: "alert" }, data.problem);
  return [
    data.empty ? empty(data.empty) : [strip(data), ranges(data)],
    data.snapshots.length ? snapshots(data) : empty("No snapshot of this generation was found."),
    data.notes.map((one) => note(printable(one))),
  ];
}

function strip(data) {
  const from = data.ranges[0].from_ms;
  const to = Math.max(from + 1, data.ranges.at(-1).to_ms);
  const x = (ms) => (1_000 * Math.max(0, Math.min(1, (ms - from) / (to - from)))).toFixed(1);
  return h(
    "figure",
    { class: "strip" },
    svg(
      "svg",
      { viewBox: "0 0 1000 30", preserveAspectRatio: "none", role: "img", "aria-label": `Restorable from ${time(from)} to ${time(to)}, in ${data.ranges.length} ranges` },
      svg("rect", { x: 0, y: 12, width: 1000, height: 6, class: "strip-all" }),
      data.ranges.map((one) =>
        svg("rect", { x: x(one.from_ms), y: 4, width: Math.max(3, x(one.to_ms) - x(one.from_ms)), height: 22, class: "strip-range" }),
      ),
      data.snapshots.filter((one) => one.committed_ms >= from).map((one) => svg("rect", { x: x(one.committed_ms), y: 0, width: 3, height: 30, class: "strip-snapshot" })),
    ),
    h("figcaption", null, h("span", null, time(from)), h("span", null, time(to))),
  );
}

const ranges = (data) =>
  table(
    `Ranges of restorable milestones of ${data.generation}`,
    [
      { name: "from", of: (one) => h("code", null, one.first) },
      { name: "to", of: (one) => h("code", null, one.last) },
      { name: "milestones", number: true, of: (one) => count(one.milestones) },
      { name: "committed from", of: (one) => time(one.from_ms) },
      { name: "to", of: (one) => time(one.to_ms) },
    ],
    data.ranges.toReversed(),
  );

const snapshots = (data) =>
  table(
    "Snapshots",
    [
      { name: "milestone", of: (one) => h("code", null, one.token) },
      { name: "committed", of: (one) => time(one.committed_ms) },
      { name: "files", number: true, of: (one) => count(one.files) },
      { name: "size", number: true, of: (one) => bytes(one.bytes) },
      { name: "evicted up to", of: (one) => (one.lower_ms === null ? "nothing" : time(one.lower_ms)) },
    ],
    data.snapshots,
  );

const starts = (every) =>
  table(
    `The newest ${every.length} starts of services`,
    [
      { name: "begun", of: (one) => time(one.begun_ms) },
      { name: "service", of: (one) => one.service },
      { name: "process", of: (one) => printable(one.process) },
      { name: "outcome", of: (one) => h("span", { class: `state ${one.outcome === "running" ? "ok" : "alert"}` }, one.outcome) },
      { name: "took", number: true, of: (one) => duration(one.took_ms) },
      { name: "decision", of: (one) => printable(one.decision) },
      { name: "found, and steps", of: details },
    ],
    every,
  );

const details = (one) =>
  h(
    "details",
    null,
    h("summary", null, `${one.found.length} facts, ${one.steps.length} steps`),
    h("dl", null, one.found.map((fact) => [h("dt", null, printable(fact.name)), h("dd", null, printable(fact.value))])),
    h("dl", null, one.steps.map((step) => [h("dt", null, printable(step.name)), h("dd", null, duration(step.took_ms))])),
  );
