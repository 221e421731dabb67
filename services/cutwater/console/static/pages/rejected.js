// Dead letters and late events: how many for which reason, and the newest as samples.

import { bar, empty, h, note, section, table } from "../dom.js";
import { bytes, count, printable, time } from "../format.js";

export const rejected = {
  id: "rejected",
  title: "Late and dead letters",
  live: false,
  load: async (context) => {
    const [letters, late] = await Promise.all([settled(context.ask("dead-letters")), settled(context.ask("late"))]);
    if (letters.problem && late.problem) throw letters.problem;
    return { letters, late };
  },
  render: ({ letters, late }) => [
    section("Dead letters", letters.problem ? failed(letters.problem) : deadLetters(letters)),
    section("Late events", late.problem ? failed(late.problem) : lateEvents(late)),
  ],
};

const settled = (asked) =>
  asked.catch((problem) => {
    if (problem.name === "AbortError") throw problem;
    return { problem };
  });
const failed = (problem) => h("p", { class: "error", role: "alert" }, problem.message);
const problems = (data) => [...data.problems, ...data.elsewhere].map((one) => note(printable(one)));
const per = (many, data) => (data.total ? Math.round((1_000 * many) / data.total) : 0);

function deadLetters(data) {
  if (!data.total) return [empty("Every event could be used."), problems(data)];
  return [
    table(
      `${count(data.total)} dead letters by reason, ${count(data.replayed)} produced again`,
      [
        { name: "reason", of: (one) => printable(one.reason) },
        { name: "field", of: (one) => one.field && printable(one.field) },
        { name: "rule", of: (one) => one.rule && printable(one.rule) },
        { name: "events", number: true, of: (one) => bar(count(one.count), per(one.count, data)) },
      ],
      data.reasons,
    ),
    table(
      `The newest ${count(data.samples.length)} dead letters`,
      [
        { name: "event", of: (one) => printable(one.event) },
        { name: "reason", of: (one) => printable(one.reason) },
        { name: "field", of: (one) => one.field && printable(one.field) },
        { name: "key", of: (one) => one.key && printable(one.key) },
        { name: "size", number: true, of: (one) => bytes(one.bytes) },
        { name: "begins with", of: (one) => one.head && h("code", null, printable(one.head)) },
        { name: "written", of: (one) => time(one.written_ms) },
        { name: "epoch", number: true, of: (one) => count(one.epoch) },
        { name: "produced again as", of: (one) => one.replayed },
      ],
      data.samples,
    ),
    data.payloads ? null : note("CUTWATER_SHOW_PAYLOADS hides what the events hold."),
    problems(data),
  ];
}

function lateEvents(data) {
  if (!data.total) return [empty("No event came after its window had closed."), problems(data)];
  return [
    table(
      `${count(data.total)} late events by how long their window had been closed`,
      [
        { name: "closed for", of: (one) => one.delay },
        { name: "events", number: true, of: (one) => bar(count(one.count), per(one.count, data)) },
      ],
      data.delays,
    ),
    table(
      "Keys with the most late events",
      [
        { name: "key", of: (one) => printable(one.key) },
        { name: "events", number: true, of: (one) => bar(count(one.count), per(one.count, data)) },
      ],
      data.keys,
    ),
    table(
      `The newest ${count(data.samples.length)} late events`,
      [
        { name: "event", of: (one) => printable(one.event) },
        { name: "key", of: (one) => printable(one.key) },
        { name: "window from", of: (one) => time(one.window_start_ms) },
        { name: "to", of: (one) => time(one.window_end_ms) },
        { name: "event time", of: (one) => time(one.event_time_ms) },
        { name: "watermark", of: (one) => time(one.watermark_ms) },
        { name: "epoch", number: true, of: (one) => count(one.epoch) },
      ],
      data.samples,
    ),
    problems(data),
  ];
}
