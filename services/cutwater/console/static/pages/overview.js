// The pipeline as a picture, with the drift at each stage, and the active alerts.

import { figures, h, section, table, empty } from "../dom.js";
import { count, duration, printable, time } from "../format.js";
import { heldPromotions } from "../holds.js";
import { picture } from "./pipeline_picture.js";

const STATES = { ok: "in step", behind: "behind", alert: "alert", unknown: "unknown" };

export const overview = {
  id: "overview",
  title: "Overview",
  live: "overview",
  load: (context) => context.ask("overview"),
  // Ages change all the time: a new picture is drawn when a figure has changed.
  unchanging: (data) => ({ ...data, now_ms: 0, reader: data.reader.state, milestone: { ...data.milestone, age_ms: 0 } }),
  render: (data) => [
    milestone(data),
    h("div", { id: "pipeline" }),
    section("Active alerts", alerts(data.alerts)),
    heldPromotions(data.holds),
    section("Stages", stages(data)),
  ],
  mount: (page, data) => picture(page.querySelector("#pipeline"), data),
};

function milestone(data) {
  const one = data.milestone;
  if (!one) return empty("No milestone was written yet: the first epoch is still being computed.");
  return figures(
    ["Newest milestone", h("code", null, one.token)],
    ["Committed", `${time(one.committed_ms)} (${duration(one.age_ms)} ago)`],
    ["Watermark", time(one.watermark_ms)],
    ["Its events", count(one.events)],
    ["Its rows", count(one.rows)],
    ["Attempt", count(data.attempt)],
  );
}

function alerts(found) {
  if (!found.length) return empty("No alert is active.");
  return h(
    "ul",
    { class: "alerts" },
    found.map((one) =>
      h(
        "li",
        null,
        h("strong", null, `${one.kind} (${printable(one.part)})`),
        h("span", { class: "since" }, `since ${one.raised.replace("T", " ")}`),
        h("p", null, printable(one.text)),
      ),
    ),
  );
}

function stages(data) {
  const into = (name) => data.links.filter((one) => one.to === name);
  return table(
    "The stages, and how far each is behind the one before",
    [
      { name: "stage", of: (one) => one.id },
      { name: "state", of: (one) => h("span", { class: `state ${one.state}` }, STATES[one.state]) },
      { name: "what it says", of: (one) => printable(one.text) },
      { name: "behind the stage before", number: true, of: (one) => into(one.id).map(drift).join(", ") },
    ],
    data.stages,
  );
}

export function drift(link) {
  const behind = `${count(link.behind)} ${link.unit}`;
  if (!link.is_drift) return link.ms === null ? "" : `newest epoch: ${behind} in ${duration(link.ms)}`;
  return link.ms === null ? behind : `${behind}, ${duration(link.ms)}`;
}
