// Promotions that are held: who, why and until when.

import { h, section } from "./dom.js";
import { printable, time } from "./format.js";

export const heldText = (hold) => `until ${time(hold.until_ms)}, by ${printable(hold.by)}${hold.reason ? `: ${printable(hold.reason)}` : ""}`;

// A section with the held promotions; nothing without any.
export function heldPromotions(holds) {
  if (!holds.length) return null;
  const requested = (one) => (one.requested ? "It is requested, and waits." : "It is not requested yet.");
  return section(
    "Held promotions",
    h(
      "ul",
      { class: "alerts held" },
      holds.map((one) =>
        h(
          "li",
          null,
          h("strong", null, one.generation),
          h("span", { class: "since" }, `held since ${time(one.since_ms)}`),
          h("p", null, `Its promotion is held ${heldText(one)}. ${requested(one)}`),
        ),
      ),
    ),
  );
}
