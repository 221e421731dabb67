// Hot keys: those with the most events, and those with the most bytes.

import { bar, empty, h, note, section, table } from "../dom.js";
import { bytes, count, printable, share, value } from "../format.js";

export const keys = {
  id: "keys",
  title: "Keys",
  live: false,
  load: (context) => context.ask("keys"),
  render: (data, context) => [
    section("By events", ranking(data, context)),
    section("By size", census(data, context)),
    note(data.lacking),
  ],
};

const link = (key, context) => h("a", { href: context.link("explore", { key }) }, printable(key));

function ranking(data, context) {
  if (data.no_ranking) return empty(data.no_ranking);
  if (!data.ranked.length) return empty("The view has no rows yet.");
  const at = data.milestones.map((one) => one.token).join(", ");
  return [
    table(
      `Keys by ${data.measure} in the ${count(data.rows_ranked)} largest rows`,
      [
        { name: "key", of: (one) => link(one.key, context) },
        { name: data.measure, number: true, of: (one) => bar(value(one.value), one.per_mille) },
        { name: "of these", number: true, of: (one) => share(one.per_mille) },
        { name: "windows", number: true, of: (one) => count(one.windows) },
        { name: "newest window", of: (one) => String(one.newest_window) },
      ],
      data.ranked,
    ),
    note(`At milestone ${at}. A key whose windows are all small is not among these rows.`),
  ];
}

function census(data, context) {
  if (!data.census) return empty(data.no_census);
  const found = data.census;
  return [
    table(
      "The largest keys of the state",
      [
        { name: "key", of: (one) => link(one.key, context) },
        { name: "size", number: true, of: (one) => bar(bytes(one.bytes), one.per_mille) },
        { name: "of the state", number: true, of: (one) => share(one.per_mille) },
      ],
      found.keys,
    ),
    note(
      `Census of ${found.counted}: ${count(found.rows)} rows, ${bytes(found.bytes)}. ` +
        `A key's true size is at most ${bytes(found.error_bytes)} smaller.`,
    ),
  ];
}
