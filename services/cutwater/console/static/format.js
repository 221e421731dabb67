// Numbers, sizes and times as people read them. Unknown values are "unknown", and never 0.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const UNKNOWN = "unknown";

export const count = (value) => (value === null || value === undefined ? UNKNOWN : whole.format(value));

export function value(of) {
  if (of === null || of === undefined) return "null";
  if (typeof of === "number") return exact.format(of);
  return typeof of === "object" ? JSON.stringify(of) : String(of);
}

export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${(ms / 3_600_000).toFixed(1)} h` : `${whole.format(ms / 86_400_000)} days`;
}

export function bytes(of) {
  if (of === null || of === undefined) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  let left = of;
  while (left >= 1_000 && at < units.length - 1) {
    left /= 1_000;
    at += 1;
  }
  return `${at && left < 100 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

// UTC, to the second, as all of Cutwater writes times.
export function time(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? `${ms} ms` : at.toISOString().replace(/\.\d{3}Z$/, "Z").replace("T", " ");
}

export const share = (perMille) => `${(perMille / 10).toFixed(1)} %`;
export const plural = (many, one) => `${count(many)} ${one}${many === 1 ? "" : "s"}`;

// A text of somebody else, with what would change the direction or hide it made visible.
export const printable = (text) =>
  String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (one) =>
    `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
