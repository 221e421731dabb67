// Draws the pipeline: from left to right in a wide place, from top to bottom on a phone.

import { h, svg } from "../dom.js";
import { count, duration, printable } from "../format.js";

const WIDE_MIN = 1_120;
const BOX = { width: 144, height: 74 };
const MARKS = { ok: "✓", behind: "…", alert: "!", unknown: "?" };
const NAMES = { ok: "in step", behind: "behind", alert: "alert", unknown: "unknown" };
const CHARS = 19;

// Rows and columns: view and publisher share a column.
const WIDE = {
  source: [0, 0],
  driver: [1, 0],
  changelog: [2, 0],
  "commit-signal": [3, 0],
  view: [4, -0.5],
  publisher: [4, 0.5],
  output: [5, 0.5],
};
const TALL = {
  source: [0, 0],
  driver: [0, 1],
  changelog: [0, 2],
  "commit-signal": [0, 3],
  view: [1, 4],
  publisher: [0, 4],
  output: [0, 5],
};

export function picture(into, data) {
  const paint = () => into.replaceChildren(drawing(data, into.clientWidth));
  const resized = new ResizeObserver(paint);
  resized.observe(into);
  paint();
  return () => resized.disconnect();
}

function drawing(data, width) {
  const wide = width >= WIDE_MIN;
  const gap = wide ? { x: Math.max(BOX.width + 64, (width - BOX.width - 4) / 5), y: 150 } : { x: BOX.width + 20, y: 132 };
  const shape = wide ? WIDE : TALL;
  const place = (name) => {
    const [column, row] = shape[name];
    return { x: 2 + column * gap.x, y: wide ? 80 + row * gap.y : 8 + row * gap.y };
  };
  const size = wide ? { width: 4 + 5 * gap.x + BOX.width, height: 236 } : { width: 2 * BOX.width + 56, height: 5 * gap.y + BOX.height + 16 };
  const label = `Pipeline of job ${data.job}: ${data.stages.map((one) => `${one.id} ${NAMES[one.state]}`).join(", ")}`;
  return h(
    "div",
    { class: "picture" },
    svg(
      "svg",
      { viewBox: `0 0 ${size.width} ${size.height}`, width: size.width, height: size.height, role: "img", "aria-label": label },
      arrowHead(),
      data.links.map((one) => link(one, place(one.from), place(one.to), wide)),
      data.stages.map((one) => stage(one, place(one.id))),
    ),
  );
}

const arrowHead = () =>
  svg(
    "defs",
    null,
    svg(
      "marker",
      { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 12, markerHeight: 12, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M0 0 8 4 0 8z", class: "arrow" }),
    ),
  );

function stage(one, at) {
  const [first, second] = lines(printable(one.text));
  return svg(
    "g",
    { class: `stage ${one.state}`, transform: `translate(${at.x} ${at.y})` },
    svg("title", null, `${one.id}: ${printable(one.text)}`),
    svg("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
    svg("text", { x: 10, y: 22, class: "stage-name" }, one.id),
    svg("text", { x: BOX.width - 12, y: 23, class: "stage-mark", "text-anchor": "end" }, MARKS[one.state]),
    svg("text", { x: 10, y: 44, class: "stage-text" }, first),
    svg("text", { x: 10, y: 60, class: "stage-text" }, second),
  );
}

function link(one, from, to, wide) {
  const aside = !wide && to.x !== from.x; // on a phone the view is beside the publisher
  const start = wide || aside ? [from.x + BOX.width, from.y + BOX.height / 2] : [from.x + BOX.width / 2, from.y + BOX.height];
  const end = wide ? [to.x, to.y + BOX.height / 2] : [to.x + BOX.width / 2, to.y];
  const middle = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2];
  const path = wide
    ? `M${start} C${middle[0]} ${start[1]} ${middle[0]} ${end[1]} ${end[0] - 2} ${end[1]}`
    : aside
      ? `M${start} C${end[0]} ${start[1]} ${end[0]} ${start[1]} ${end[0]} ${end[1] - 2}`
      : `M${start} L${end[0]} ${end[1] - 2}`;
  const texts = [`${one.behind === null ? "?" : count(one.behind)} ${one.unit}`, one.ms === null ? "" : duration(one.ms)];
  const above = wide && to.y < from.y;
  const x = wide ? middle[0] : end[0] + 10;
  const y = wide ? (above ? Math.min(start[1], end[1]) - 12 : Math.max(start[1], end[1]) + 18) : end[1] - 34;
  return svg(
    "g",
    { class: `link ${one.state}` },
    svg("path", { d: path, "marker-end": "url(#arrow)" }),
    texts.filter(Boolean).map((text, at) =>
      svg("text", { x, y: y + at * (above ? -15 : 15), "text-anchor": wide ? "middle" : "start" }, text),
    ),
  );
}

// At most two lines of a text; what is longer ends with an ellipsis, and the title has all of it.
function lines(text) {
  if (text.length <= CHARS) return [text, ""];
  const space = text.lastIndexOf(" ", CHARS);
  const end = space > CHARS / 2 ? space : CHARS;
  const rest = text.slice(end).trim();
  return [text.slice(0, end), rest.length > CHARS ? `${rest.slice(0, CHARS - 1)}…` : rest];
}
