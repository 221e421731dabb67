// Requests for data, and the live stream. With a token each of them carries it; EventSource cannot, so the stream is
// read by fetch.

const KEPT = "cutwater-token";
const ANSWER_MS = 45_000;
const SILENT_MS = 25_000; // the server says something every ten seconds
const AGAIN_MS = [1_000, 2_000, 5_000, 10_000];

export class Problem extends Error {
  constructor(status, detail, kind) {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
}

export const setToken = (token) => sessionStorage.setItem(KEPT, token);
export const hasToken = () => sessionStorage.getItem(KEPT) !== null;
const headers = () => {
  const token = sessionStorage.getItem(KEPT);
  return token ? { authorization: `Bearer ${token}` } : {};
};

export function ask(path, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return send(text ? `${path}?${text}` : path, { headers: headers() }, signal);
}

// Asks for an action. A page of another site can send neither this header nor this type.
export const act = (path, body) =>
  send(path, { method: "POST", headers: { ...headers(), "content-type": "application/json" }, body: JSON.stringify(body) });

async function send(path, request, signal) {
  const limit = AbortSignal.timeout(ANSWER_MS);
  let answer;
  try {
    answer = await fetch(path, { ...request, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The console does not answer. It may have ended: start it with 'cutwater console'.", "gone");
  }
  if (answer.ok) return answer.json();
  throw await problemOf(answer);
}

async function problemOf(answer) {
  let said = {};
  try {
    said = await answer.json();
  } catch {
    // not from the console itself
  }
  const detail = typeof said.detail === "string" ? said.detail : `The console answered ${answer.status}.`;
  return new Problem(answer.status, detail, answer.status === 401 ? "token" : (said.kind ?? "broken"));
}

// Follows a stream until `signal` aborts. `take`: gets each event's data; `state`: gets "live", or a Problem.
export async function follow(path, take, state, signal) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await readOnce(path, (data) => {
        failures = 0;
        state("live");
        take(data);
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      state(error instanceof Problem ? error : new Problem(0, "The console does not answer; trying again.", "gone"));
      if (error.kind === "token") return;
    }
    await pause(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)], signal);
    failures += 1;
  }
}

async function readOnce(path, take, signal) {
  const silent = new AbortController();
  const answer = await fetch(path, { headers: headers(), signal: AbortSignal.any([signal, silent.signal]) });
  if (!answer.ok) throw await problemOf(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const timer = setTimeout(() => silent.abort(), SILENT_MS);
    let part;
    try {
      part = await reader.read();
    } finally {
      clearTimeout(timer);
    }
    if (part.done) return;
    left += part.value;
    const events = left.split("\n\n");
    left = events.pop();
    for (const one of events) {
      const data = one.split("\n").find((line) => line.startsWith("data: "));
      if (data) take(JSON.parse(data.slice(6)));
    }
  }
}

export const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
