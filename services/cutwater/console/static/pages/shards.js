// Load by partition over time, and the state's size by shard over time, as heat maps.

import { bar, empty, h, note, section, table } from "../dom.js";
import { heatMap } from "../heat.js";
import { bytes, count, duration, plural, share } from "../format.js";

const KINDS = {
  writes: { title: "Rows written by partition", lane: "partition", unit: (value) => plural(value, "row"), what: "sum" },
  state: { title: "State by shard", lane: "shard", unit: bytes, what: "newest census" },
};

const kindOf = (context) => (context.query.get("of") === "state" ? "state" : "writes");

export const shards = {
  id: "shards",
  title: "Shards",
  live: true,
  load: (context) =>
    context.ask("shards", { of: kindOf(context), first: context.query.get("first"), end: context.query.get("end") }),
  unchanging: (data) => [data.of, data.version, data.first, data.end],
  render: (data, context) => {
    const kind = KINDS[data.of];
    return [
      controls(context, data),
      note(data.lacking),
      data.at.length ? h("div", { id: "map" }) : empty(nothing(data)),
      data.at.length ? section("The hottest", hottest(data, kind)) : null,
    ];
  },
  mount: (page, data, context) => {
    const into = page.querySelector("#map");
    if (!into) return null;
    const kind = KINDS[data.of];
    const { of } = data;
    const made = heatMap(data, {
      ...kind,
      opened: (first, end) => context.go({ of, first, end }),
      back: context.query.get("end") ? () => context.go({ of }) : null,
    });
    const at = `${kind.title}, ${kind.lane}s ${count(data.first)} to ${count(data.end - 1)} of ${count(data.lanes)}`;
    const bands = data.band > 1 ? `; a band has ${count(data.band)}, and shows the hottest` : "";
    into.replaceChildren(h("h3", null, `${at}${bands}; a column is ${duration(data.width_ms)}`), made.body);
    return made.end;
  },
};

const nothing = (data) =>
  data.of === "state"
    ? "The rehydrator has taken no census since this console runs. It does so every CUTWATER_VIEW_CENSUS_MS."
    : "No milestone of this generation was read yet.";

function controls(context, data) {
  const choose = (of) => () => context.go({ of });
  const part = context.query.get("end");
  return h(
    "p",
    { class: "controls" },
    Object.entries(KINDS).map(([name, kind]) =>
      h("button", { type: "button", id: `of-${name}`, "aria-pressed": String(name === data.of), on: { click: choose(name) } }, kind.title),
    ),
    h("button", { type: "button", id: "all", disabled: !part, on: { click: choose(data.of) } }, `All ${count(data.lanes)}`),
  );
}

function hottest(data, kind) {
  if (!data.hottest.length) return empty("Nothing was written.");
  return table(
    `The ${kind.lane}s with the most (${kind.what})`,
    [
      { name: kind.lane, of: (one) => count(one.lane) },
      { name: data.of === "state" ? "size" : "rows", number: true, of: (one) => bar(data.of === "state" ? bytes(one.value) : count(one.value), one.per_mille) },
      { name: "of all", number: true, of: (one) => share(one.per_mille) },
    ],
    data.hottest,
  );
}
