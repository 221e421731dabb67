// Keys: a digit opens a page, "t" changes the theme, "?" lists the keys. They can be switched off (WCAG 2.1.4).

import { h } from "./dom.js";

const KEPT = "cutwater-keys";
const isOn = () => localStorage.getItem(KEPT) !== "off";

export function startKeys(pages, open) {
  const dialog = document.getElementById("help-dialog");
  const box = document.getElementById("shortcuts");
  const show = () => {
    box.checked = isOn();
    dialog.showModal();
  };
  const listed = [
    ...pages.map((one, at) => [String(at + 1), one.title]),
    ["t", "change the theme"],
    ["?", "this list"],
    ["arrows, Enter, Escape", "in a heat map: move, look into a band, go back"],
  ];
  document.getElementById("help-keys").replaceChildren(
    ...listed.flatMap(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]),
  );
  document.getElementById("help").addEventListener("click", show);
  box.addEventListener("change", () => localStorage.setItem(KEPT, box.checked ? "on" : "off"));
  addEventListener("keydown", (event) => {
    if (!isOn() || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const page = pages[Number(event.key) - 1];
    if (page) open(page);
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") show();
    else return;
    event.preventDefault();
  });
}

const isTyping = (target) => target.closest?.("input, select, textarea, [contenteditable]") !== null;
