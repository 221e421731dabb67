// What is copied here from other regions: safe time, lag, and the progress of each topic.

import { actionRow } from "../actions.js";
import { empty, figures, h, section, table } from "../dom.js";
import { bytes, count, duration, printable, time } from "../format.js";

export const regions = {
  id: "regions",
  title: "Regions",
  live: false,
  load: (context) => context.ask("regions"),
  render: (data, context) => {
    const here = figures(["This region", data.region]);
    if (data.empty) return [here, empty(data.empty)];
    return [here, data.replicas.map((one) => replica(one, context))];
  },
};

function replica(one, context) {
  const seconds = one.catch_up_s === null ? null : one.catch_up_s * 1_000;
  return section(
    `From ${printable(one.origin)}`,
    one.paused ? h("p", { class: "state behind" }, "The mirror is paused by an operator.") : null,
    steering(one, context),
    one.resyncs.map((each) => h("p", { class: "state behind" }, `${printable(each.topic)} is copied again since ${time(each.at_ms)}.`)),
    figures(
      ["Newest arrival", one.token ? h("code", null, one.token) : "nothing yet"],
      ["Safe time (watermark)", time(one.watermark_ms)],
      ["Its age", duration(one.age_ms)],
      ["Milestones not arrived", count(one.milestones)],
      ["Replica lag", duration(one.lag_ms)],
      ["Records not copied", count(one.records)],
      ["Bytes not copied", bytes(one.size)],
      ["Skew of the partitions", duration(one.skew_ms)],
      ["Copied per second", `${count(one.records_per_s)} records`],
      ["Caught up in", duration(seconds)],
    ),
    one.topics.length ? topics(one) : empty("The mirror has copied nothing yet."),
  );
}

function steering(one, context) {
  const of = { object: one.origin, name: context.job };
  const pause = { action: "mirror pause", label: "Pause the mirror", says: `Nothing is copied from ${one.origin} until it continues.` };
  const resume = { action: "mirror resume", label: "Let the mirror continue", says: `The mirror of ${one.origin} continues at its position.` };
  return actionRow(context.button({ ...of, ...(one.paused ? resume : pause) }));
}

function topics(one) {
  return table(
    `Topics copied from ${printable(one.origin)}`,
    [
      { name: "topic", of: (each) => printable(each.topic) },
      { name: "partitions", number: true, of: (each) => count(each.partitions) },
      { name: "records copied", number: true, of: (each) => count(each.records) },
      { name: "bytes", number: true, of: (each) => bytes(each.bytes) },
      { name: "last copied", of: (each) => time(each.copied_ms) },
      { name: "slowest partition", number: true, of: (each) => String(each.slowest_partition) },
      { name: "its newest record", of: (each) => time(each.slowest_ms) },
    ],
    one.topics,
  );
}
