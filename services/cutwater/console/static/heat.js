// A heat map on a canvas: time from left to right, bands of lanes from top to bottom. One pixel a cell, scaled up.

import { colour, h } from "./dom.js";
import { count, time } from "./format.js";

const HEIGHT_MIN = 160;
const HEIGHT_MAX = 520;
const STEPS = 64;
const cursors = new Map(); // where the cursor was, by map: a new picture keeps it

// `picture`: as /shards answers. `unit`: value => text. `opened`: gets the first and the end lane of a chosen band.
export function heatMap(picture, { lane, unit, opened, back }) {
  const canvas = h("canvas", {
    class: "heat",
    id: "heat",
    tabindex: "0",
    role: "img",
    "aria-label": `Heat map of ${picture.bands} bands over time. Arrow keys move the cursor, Enter looks into a band.`,
  });
  const said = h("p", { class: "heat-said", role: "status" }, "Move over the map, or use the arrow keys.");
  const cursor = kept(picture);
  const image = cells(picture);
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * picture.columns);
    return { number: column, band: Math.floor(((event.clientY - box.top) / box.height) * picture.bands) };
  };
  const say = () => {
    const lanes = lanesOf(picture, cursor.band, lane);
    const moment = time(momentOf(picture, cursor.column));
    const value = picture.cells[cursor.column]?.[cursor.band];
    said.textContent = `${lanes}, ${moment}: ${picture.band > 1 ? "at most " : ""}${unit(value ?? 0)}`;
  };
  const paint = () => draw(canvas, image, picture, cursor);
  const move = (column, band) => {
    cursor.column = Math.max(0, Math.min(picture.at.length - 1, column));
    cursor.band = Math.max(0, Math.min(picture.bands - 1, band));
    cursor.on = true;
    cursor.ms = momentOf(picture, cursor.column);
    cursors.set(nameOf(picture), cursor);
    paint();
    say();
  };
  const open = () => {
    const first = picture.first + cursor.band * picture.band;
    if (picture.band > 1) opened(first, Math.min(first + picture.band, picture.end));
  };
  canvas.addEventListener("pointermove", (event) => {
    const { number, band } = at(event);
    const column = picture.at.findLastIndex((one) => one <= number);
    if (column >= 0) move(column, band);
  });
  canvas.addEventListener("click", open);
  canvas.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) move(cursor.column + moves[event.key][0], cursor.band + moves[event.key][1]);
    else if (event.key === "Enter") open();
    else if (event.key === "Escape" && back) back();
    else return;
    event.preventDefault();
  });
  const resized = new ResizeObserver(paint);
  resized.observe(canvas);
  if (cursor.on) say();
  return { body: h("div", { class: "heat-place" }, canvas, said, legend(picture, unit)), end: () => resized.disconnect() };
}

const nameOf = (picture) => `${picture.of} ${picture.first} ${picture.end}`;
const momentOf = (picture, column) => picture.from_ms + picture.at[column] * picture.width_ms;

// The cursor as it was in an earlier picture of the same lanes, at the same moment.
function kept(picture) {
  const before = cursors.get(nameOf(picture));
  const newest = picture.at.length - 1;
  if (!before) return { column: newest, band: 0, on: false };
  const column = picture.at.findLastIndex((_, number) => momentOf(picture, number) <= before.ms);
  return { column: Math.max(0, column), band: Math.min(before.band, picture.bands - 1), on: true, ms: before.ms };
}

const lanesOf = (picture, band, name) => {
  const first = picture.first + band * picture.band;
  const last = Math.min(first + picture.band, picture.end) - 1;
  return last > first ? `${name}s ${count(first)} to ${count(last)}` : `${name} ${count(first)}`;
};

// A logarithmic scale: a hot spot must not make all others look alike.
const level = (value, most) => (value <= 0 ? 0 : Math.max(0.06, Math.log1p(value) / Math.log1p(most)));

function cells(picture) {
  const width = Math.max(1, picture.columns);
  const image = new ImageData(width, Math.max(1, picture.bands));
  const scale = Array.from({ length: STEPS + 1 }, (_, at) => mixed(at / STEPS));
  picture.cells.forEach((column, number) => {
    const x = picture.at[number];
    for (let band = 0; band < column.length; band += 1) {
      const [red, green, blue] = scale[Math.round(level(column[band], picture.max) * STEPS)];
      image.data.set([red, green, blue, 255], 4 * (band * width + x));
    }
  });
  const small = new OffscreenCanvas(image.width, image.height);
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

const numbers = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);

function mixed(part) {
  const [low, middle, high] = ["--heat-0", "--heat-1", "--heat-2"].map((name) => numbers(colour(name)));
  const [from, to, at] = part < 0.5 ? [low, middle, 2 * part] : [middle, high, 2 * part - 1];
  return from.map((one, index) => Math.round(one + (to[index] - one) * at));
}

function draw(canvas, image, picture, cursor) {
  const ratio = devicePixelRatio || 1;
  const height = Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, picture.bands * 12));
  canvas.style.height = `${height}px`;
  const width = canvas.clientWidth;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (!cursor.on) return;
  const [wide, high] = [canvas.width / Math.max(1, picture.columns), canvas.height / picture.bands];
  context.strokeStyle = colour("--text");
  context.lineWidth = 2 * ratio;
  const [x, y] = [picture.at[cursor.column] * wide, cursor.band * high];
  context.strokeRect(x - 1, y - 1, Math.max(wide, 4) + 2, Math.max(high, 4) + 2);
}

function legend(picture, unit) {
  return h(
    "p",
    { class: "heat-legend" },
    h("span", null, unit(0)),
    h("span", { class: "heat-scale", "aria-hidden": "true" }),
    h("span", null, `${unit(picture.max)} (logarithmic)`),
  );
}
