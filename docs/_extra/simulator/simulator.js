"use strict";
// Shows the histories of stories.js: which step, what stands where after it, and how it ends.

const { columns, stories } = window.STORIES;
const NAMES = {
  source: "events on the source", changelog: "rows on the changelog", barriers: "records of barriers",
  milestones: "records of the commit stream", view: "milestone of the view", part: "milestone of a view's part",
  published: "positions of the publisher", output: "records of the output", reader: "milestone of a reader",
};
const VERBS = {
  run: "goes on", kill: "is killed", stall: "does not move any more", wake: "moves again", events: "Events come",
  marker: "A transaction's marker is written", compact: "Compaction runs", leap: "Time passes", age: "Event time goes on by hours",
  unknown: "loses the answer of the broker", skew: "has another clock", "late-row": "A zombie writes a row", "lose-view": "The view's disk is lost",
  forget: "Old milestones are deleted", timeout: "Brokers abort an open transaction", settle: "All go on to the end",
};
const byId = (id) => document.getElementById(id);
let story = stories[0];
let at = 0;

function frames() {
  return byId("guard").checked ? story.with : story.without;
}

function sentence(step) {
  const [kind, what] = step.split(" ");
  const verb = VERBS[kind] || kind;
  return what && verb[0] === verb[0].toLowerCase() ? `${what} ${verb}` : verb;
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show() {
  const all = frames();
  const last = all.length - 1;
  at = Math.min(Math.max(at, 0), last);
  byId("at").max = last;
  byId("at").value = at;
  const wrong = !byId("guard").checked;
  const ended = at === last;
  const done = at < story.steps.length ? sentence(story.steps[at]) : "All go on until nobody has anything to do";
  byId("step").textContent = `Step ${at + 1} of ${last + 1}: ${done}.`;
  draw(all[at], at ? all[at - 1] : null);
  const verdict = byId("verdict");
  verdict.className = ended ? (wrong ? "wrong" : "right") : "";
  verdict.textContent = ended ? (wrong ? `The checker says: ${story.anomaly}` : "The checker finds nothing wrong.") : "";
  [...byId("steps").children].forEach((one, number) => {
    if (number === at) one.setAttribute("aria-current", "step");
    else one.removeAttribute("aria-current");
  });
}

function draw(frame, before) {
  const places = columns.map((name, number) => {
    const moved = before && before.at[number] !== frame.at[number];
    const box = element("div", "", moved ? "place moved" : "place");
    box.append(element("b", String(frame.at[number])), element("span", NAMES[name]));
    return box;
  });
  const who = element("div", "", "place");
  who.append(element("span", "processes: "));
  for (const name of frame.live) who.append(element("span", name, "process"));
  for (const name of frame.stalled) who.append(element("span", `${name} stands still`, "process stalled"));
  if (!frame.live.length && !frame.stalled.length) who.append(element("span", "none"));
  byId("picture").replaceChildren(...places, who);
}

function choose(number) {
  story = stories[number];
  at = 0;
  byId("about").textContent =
    `It keeps away: ${story.keeps_away} (${story.invariant}). The history comes from seed ${story.seed}, with ${story.steps.length} of its steps.`;
  byId("steps").replaceChildren(...story.steps.map((step, place) => {
    const line = element("li", sentence(step));
    line.tabIndex = 0;
    const go = () => { at = place; show(); };
    line.addEventListener("click", go);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
    return line;
  }));
  show();
}

stories.forEach((one, number) => byId("story").append(new Option(one.guard, number)));
byId("story").addEventListener("change", (event) => choose(Number(event.target.value)));
byId("guard").addEventListener("change", show);
byId("at").addEventListener("input", (event) => { at = Number(event.target.value); show(); });
byId("first").addEventListener("click", () => { at = 0; show(); });
byId("back").addEventListener("click", () => { at -= 1; show(); });
byId("next").addEventListener("click", () => { at += 1; show(); });
byId("last").addEventListener("click", () => { at = Infinity; show(); });
choose(0);
