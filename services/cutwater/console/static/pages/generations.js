// The generations as a tree: each below its parent, with its claim.

import { actionRow } from "../actions.js";
import { empty, figures, h, note } from "../dom.js";
import { count, printable, time } from "../format.js";
import { heldText } from "../holds.js";

const STATES = {
  current: "current",
  replaced: "replaced",
  candidate: "candidate",
  promoting: "promotion requested",
  aborted: "given up",
};

export const generations = {
  id: "generations",
  title: "Generations",
  live: false,
  load: (context) => context.ask("generations"),
  render: (data, context) => {
    if (!data.generations.length) return empty("No generation has written a milestone, and none was claimed.");
    const known = new Set(data.generations.map((one) => one.id));
    const below = (parent) => data.generations.filter((one) => one.parent === parent);
    const roots = data.generations.filter((one) => !known.has(one.parent));
    return [
      h("ul", { class: "tree" }, roots.map((one) => node(one, below, context))),
      note(
        "Parents of generations that were promoted long ago are known by their claims, " +
          "and forks as claims that continue another region's milestone.",
      ),
    ];
  },
};

function node(one, below, context) {
  const children = below(one.id);
  return h(
    "li",
    null,
    h(
      "article",
      { class: `generation ${one.state}`, "aria-label": `generation ${one.id}, ${STATES[one.state]}` },
      h("h3", null, h("code", null, one.id), h("span", { class: `state ${one.state}` }, STATES[one.state])),
      figures(...facts(one)),
      one.state === "candidate" || one.state === "promoting" ? actions(one, context) : null,
    ),
    children.length ? h("ul", null, children.map((child) => node(child, below, context))) : null,
  );
}

function actions(one, context) {
  const of = { object: one.id, name: one.id };
  return actionRow(
    one.state === "candidate" &&
      !one.claim?.hold &&
      context.button({
        ...of,
        action: "generation promote",
        label: `Promote ${one.id}`,
        says: "As soon as it has caught up it takes over, and the generation that is current now ends.",
      }),
    one.claim?.may_be_held &&
      context.button({
        ...of,
        action: "generation hold",
        label: `${one.claim.hold ? "Hold on" : "Hold"} ${one.id}`,
        says: "Its promotion waits, also one that is requested already. It continues to catch up, and the hold ends by itself.",
        reason: true,
        duration: "1h",
      }),
    one.claim?.hold &&
      context.button({
        ...of,
        action: "generation release",
        label: `Release ${one.id}`,
        says: "Its hold ends: its promotion, if it is requested, continues.",
        reason: true,
      }),
    context.button({
      ...of,
      action: "generation abort",
      label: `Give up ${one.id}`,
      says: "It is never promoted, and its driver and commit-signal end. This cannot be undone.",
      reason: true,
    }),
  );
}

function facts(one) {
  const { reign, claim } = one;
  const found = [];
  if (one.parent_token) found.push(["From", h("code", null, one.parent_token)]);
  if (reign) {
    found.push(["Milestones", `${count(reign.first_sequence)} to ${count(reign.last_sequence)}`]);
    found.push(["Wrote", `${time(reign.first_ms)} to ${time(reign.last_ms)}`]);
    found.push(["Partitions", count(reign.partitions)]);
    if (reign.rewinds_to) found.push(["Went back to", `milestone ${count(reign.rewinds_to)}`]);
  }
  if (claim) {
    found.push(["Claimed", time(claim.at_ms)]);
    if (!reign) found.push(["Partitions", count(claim.partitions)]);
    if (claim.reason) found.push(["Reason", printable(claim.reason)]);
    if (claim.origin) found.push(["Fork of region", printable(claim.origin)]);
    if (claim.decision) found.push(["The line that counts", h("code", null, claim.decision)]);
    if (!reign && claim.epoch !== null) {
      found.push(["Its epoch", count(claim.epoch)]);
      found.push(["Events since its parent", count(claim.events_since_parent)]);
      found.push(["Watermark", time(claim.watermark_ms)]);
    } else if (!reign) found.push(["Its epoch", "none yet: no driver has written one"]);
    if (claim.hold) found.push(["Promotion held", heldText(claim.hold)]);
    if (claim.counts_late_events) found.push(["Late events", "it counts those that its parent listed"]);
    if (claim.withdrawn !== null) found.push(["Given up", printable(claim.withdrawn || "without a reason")]);
  }
  return found;
}
