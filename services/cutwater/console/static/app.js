// The frame of all pages: the chosen job, the address, the live stream, and what is shown while nothing is there.

import { actionButton, startActions, takeAccess } from "./actions.js";
import { ask, follow, hasToken, Problem, setToken } from "./api.js";
import { empty, h, problemBox } from "./dom.js";
import { duration } from "./format.js";
import { startKeys } from "./keys.js";
import { startTheme, onTheme } from "./theme.js";
import { PAGES } from "./pages/all.js";

const REFRESH_MS = 2_000; // at most so often, however fast milestones come
const JOBS_MS = 5_000;
const SLOW_MS = 300; // a page that takes longer says so
const element = (id) => document.getElementById(id);
const main = element("main");

const now = {
  job: null,
  page: null,
  query: new URLSearchParams(),
  overview: null,
  shown: "",
  asked: 0,
  stop: new AbortController(),
  stream: null,
};

// The address: #/JOB/PAGE?query
export function address(job, page, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${encodeURIComponent(job ?? "")}/${page}${text ? `?${text}` : ""}`;
}

function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [job = "", page = ""] = path.split("/");
  const found = PAGES.find((one) => one.id === page) ?? PAGES[0];
  return { job: decodeURIComponent(job), page: found, query: new URLSearchParams(query) };
}

const context = {
  get job() {
    return now.job;
  },
  get overview() {
    return now.overview;
  },
  get query() {
    return now.query;
  },
  link: (page, query) => address(now.job, page, query),
  go: (query, page = now.page.id) => {
    location.hash = address(now.job, page, query);
  },
  ask: (what, query, signal = now.stop.signal) => ask(`/api/jobs/${encodeURIComponent(now.job)}/${what}`, query, signal),
  again: () => load(true),
  button: (wanted) => actionButton(now.job, wanted),
};

function showState(text, kind) {
  const status = element("status");
  status.textContent = text;
  status.dataset.kind = kind;
}

function showBanner(text) {
  const banner = element("banner");
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

// Puts a page's content in place, without taking the focus or the scrolled place from it.
function place(...children) {
  const focused = document.activeElement?.id;
  const scrolled = new Map([...main.querySelectorAll(".scroll")].map((one) => [one.ariaLabel, one.scrollLeft]));
  now.cleanup?.();
  now.cleanup = null;
  const body = h("div", { id: "page" }, children);
  if (element("page")) element("page").replaceWith(body);
  else main.append(body);
  for (const one of body.querySelectorAll(".scroll")) one.scrollLeft = scrolled.get(one.ariaLabel) ?? 0;
  if (focused && focused !== document.activeElement?.id) document.getElementById(focused)?.focus({ preventScroll: true });
  return body;
}

async function load(fresh = false) {
  const asked = ++now.asked;
  const { page } = now;
  if (!now.job) return;
  if (fresh) {
    now.shown = "";
    place(h("p", { class: "loading", role: "status" }, `Loading ${page.title.toLowerCase()}…`));
  }
  const slow = setTimeout(() => main.setAttribute("aria-busy", "true"), SLOW_MS);
  try {
    const data = await page.load(context);
    if (asked !== now.asked) return;
    draw(data);
  } catch (error) {
    if (asked !== now.asked || error.name === "AbortError") return;
    if (error.kind === "token") askForToken();
    now.shown = "";
    const problem = error instanceof Problem ? error : new Problem(0, String(error), "broken");
    place(problemBox(problem, () => load(true)));
    if (!(error instanceof Problem)) console.error(error);
  } finally {
    clearTimeout(slow);
    if (asked === now.asked) {
      main.removeAttribute("aria-busy");
      now.loadedAt = performance.now();
    }
  }
}

function draw(data) {
  const text = JSON.stringify(now.page.unchanging ? now.page.unchanging(data) : data);
  if (text === now.shown) return;
  now.shown = text;
  now.data = data;
  const made = now.page.render(data, context);
  place(made);
  now.cleanup = now.page.mount?.(element("page"), data, context) ?? null;
  document.title = `${now.page.title} – ${now.job} – Cutwater`;
}

// Which buttons a page has depends on the token's role.
async function readAccess() {
  try {
    takeAccess(await ask("/api/access"));
  } catch {
    return; // whatever else is asked says why
  }
  element("use-token").hidden = !hasToken();
  redraw();
}

function redraw() {
  if (now.data === undefined || !now.shown) return;
  now.shown = "";
  draw(now.data);
}

const links = PAGES.map((one, at) =>
  h("a", { id: `nav-${one.id}` }, h("span", { class: "nav-key", "aria-hidden": "true" }, String(at + 1)), one.title),
);
element("nav").replaceChildren(...links.map((one) => h("li", null, one)));

// The links stay, so that the focus does.
function showNav() {
  PAGES.forEach((one, at) => {
    links[at].href = address(now.job, one.id);
    links[at].ariaCurrent = one === now.page ? "page" : null;
  });
}

function route() {
  const wanted = parse();
  const job = wanted.job || now.jobs?.[0]?.job || null;
  const changedPage = wanted.page !== now.page || job !== now.job;
  const changed = changedPage || wanted.query.toString() !== now.query.toString();
  if (job !== now.job) startJob(job);
  Object.assign(now, { page: wanted.page, query: wanted.query });
  showNav();
  if (!changed) return;
  now.stop.abort();
  now.stop = new AbortController();
  now.data = undefined;
  now.shown = ""; // what is shown depends on the query, too
  if (changedPage) {
    main.replaceChildren(h("h2", { id: "title" }, now.page.title));
    now.cleanup?.();
    now.cleanup = null;
  }
  load(changedPage);
}

function startJob(job) {
  now.stream?.abort();
  Object.assign(now, { job, overview: null });
  element("job").value = job ?? "";
  if (!job) return;
  const stream = new AbortController();
  now.stream = stream;
  follow(`/api/jobs/${encodeURIComponent(job)}/events`, takeOverview, takeStreamState, stream.signal);
}

function takeOverview(data) {
  if (data.stages) now.overview = data;
  takeReader(data.reader);
  if (now.page?.live === "overview" && data.stages) draw(now.overview);
  else if (now.page && (now.page.live || !now.shown)) refreshSoon();
}

function refreshSoon() {
  if (now.refreshing) return;
  const wait = Math.max(0, REFRESH_MS - (performance.now() - (now.loadedAt ?? 0)));
  now.refreshing = setTimeout(() => {
    now.refreshing = null;
    if (now.pressed) refreshSoon(); // a range is being selected
    else if (!document.hidden) load();
  }, Math.max(100, wait));
}

function takeReader(reader) {
  const texts = { starting: "starting", "reading history": "reading history", live: "live", away: "broker away" };
  showState(texts[reader.state] ?? reader.state, reader.state);
  if (reader.state === "away") {
    const since = reader.read_ms ? `The last read was ${duration(reader.now_ms - reader.read_ms)} ago. ` : "";
    showBanner(`The brokers cannot be read. ${since}${reader.problem}`);
  } else showBanner("");
}

function takeStreamState(state) {
  if (state === "live") return;
  showState(state.kind === "token" ? "token needed" : "not live", "away");
  if (state.kind === "token") askForToken();
  else showBanner(state.message);
}

async function readJobs() {
  try {
    const found = await ask("/api/jobs");
    now.jobs = found.jobs.filter((one) => one.state !== "ended");
    showJobs(found);
  } catch (error) {
    if (error.kind === "token") askForToken();
    else showBanner(error.message);
    if (!now.job) showState(error.kind === "token" ? "token needed" : "not live", "away");
  }
}

function showJobs(found) {
  const select = element("job");
  const names = found.jobs.map((one) => one.job);
  const shown = [...select.options].map((one) => one.value).join("\n");
  if (names.join("\n") !== shown) {
    select.replaceChildren(...names.map((one) => h("option", { value: one }, one)));
    if (!names.length) select.append(h("option", { value: "" }, "none"));
    select.disabled = names.length < 2;
    select.value = now.job ?? "";
  }
  if (names.length) {
    if (!now.job || !now.page) route();
    return;
  }
  showState("no job", "away");
  const problem = found.problem || "No job runs.";
  if (!now.job && main.querySelector(".empty")?.textContent === problem) return;
  startJob(null);
  showBanner("");
  showNav();
  main.replaceChildren(h("h2", { id: "title" }, now.page?.title ?? PAGES[0].title));
  place(empty(problem));
}

function askForToken(refused = true) {
  const dialog = element("token-dialog");
  if (dialog.open) return;
  element("token-problem").textContent = refused && hasToken() ? "The token was refused." : "";
  dialog.showModal();
}

element("token-form").addEventListener("submit", () => {
  setToken(element("token").value.trim());
  element("token").value = "";
  const { job } = now;
  startJob(null);
  now.page = null;
  readAccess();
  readJobs().then(() => job && startJob(job));
});
element("use-token").addEventListener("click", () => askForToken(false));
element("job").addEventListener("change", (event) => {
  location.hash = address(event.target.value, now.page.id);
});
addEventListener("hashchange", () => {
  if (location.hash !== "#main") route();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the address of the page
  main.focus();
});
addEventListener("pointerdown", () => {
  now.pressed = true;
});
for (const ended of ["pointerup", "pointercancel", "blur"]) {
  addEventListener(ended, () => {
    now.pressed = false;
  });
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && now.page?.live === true) refreshSoon();
});
startActions(() => load());
onTheme(redraw);
startTheme(element("theme"));
startKeys(PAGES, (page) => {
  location.hash = address(now.job, page.id);
});
readAccess();
readJobs();
setInterval(readJobs, JOBS_MS);
