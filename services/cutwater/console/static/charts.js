// Line charts by uPlot (static/vendor), in the colours of the theme and as wide as their place.

import uPlot from "./vendor/uPlot.esm.js";
import { colour, h } from "./dom.js";
import { time } from "./format.js";

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [1, 5]];
const HEIGHT = 280;
const DAY = "\n{YYYY}-{MM}-{DD}";
// By the distance of two ticks in seconds: their text, and what is added where the year, the day or the minute changes.
const TICKS = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, DAY, null, null, null, 1],
  [0.001, "{ss}.{fff}", `\n{HH}:{mm}${DAY}`, null, DAY, null, "\n{HH}:{mm}", null, 1],
];

// `series`: [{name, values}]; `times`: ms; `format`: value => text; `zoomed`: gets the range of a selection, in ms.
// Returns what takes the chart away.
export function lineChart(into, { times, series, format, zoomed, label }) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const options = {
    width: Math.max(240, into.clientWidth),
    height: HEIGHT,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "UTC"),
    cursor: { drag: { x: Boolean(zoomed), y: false } },
    scales: { x: { time: true } },
    axes: [{ ...axis, values: TICKS }, { ...axis, size: 76, values: (_, splits) => splits.map((one) => (one === null ? "" : format(one))) }],
    series: [
      { label: "time (UTC)", value: (_, value) => (value === null ? "–" : time(value * 1_000)) },
      ...series.map((one, at) => ({
        label: one.name,
        stroke: colour(COLOURS[at % COLOURS.length]),
        width: 2,
        dash: DASHES[at % DASHES.length],
        spanGaps: false,
        points: { show: times.length < 60, size: 5 },
        value: (_, value) => (value === null || value === undefined ? "–" : format(value)),
      })),
    ],
    hooks: {
      setSelect: [
        (chart) => {
          if (zoomed && chart.select.width > 4) {
            const at = (x) => Math.round(chart.posToVal(x, "x") * 1_000);
            zoomed(at(chart.select.left), at(chart.select.left + chart.select.width));
          }
        },
      ],
    },
  };
  const figure = h("figure", { class: "chart", role: "img", "aria-label": label });
  into.replaceChildren(figure);
  const chart = new uPlot(options, [times.map((one) => one / 1_000), ...series.map((one) => one.values)], figure);
  const resized = new ResizeObserver(() => chart.setSize({ width: Math.max(240, into.clientWidth), height: HEIGHT }));
  resized.observe(into);
  return () => {
    resized.disconnect();
    chart.destroy();
  };
}
