// Actions: a button where the token's role allows it, a dialog in which the name is typed, and what came of it.

import { act } from "./api.js";
import { h } from "./dom.js";

const element = (id) => document.getElementById(id);
const now = { access: { name: "", role: null, may: [] }, wanted: null, job: null, after: () => {} };

// `after`: called when something was changed.
export function startActions(after) {
  now.after = after;
  element("action-name").addEventListener("input", check);
  element("action-form").addEventListener("submit", (event) => {
    event.preventDefault(); // the dialog stays open if it fails
    perform();
  });
  element("action-cancel").addEventListener("click", () => element("action-dialog").close());
  element("action-dialog").addEventListener("close", () => {
    now.wanted = null;
    element("action-form").reset();
  });
}

export function takeAccess(access) {
  now.access = access;
  element("role").textContent = access.role ? `${access.name} (${access.role})` : "";
}

// A button for an action; nothing if the role does not allow it. `object`: what is changed, empty for the job itself.
// `name`: what the user must type. `says`: what will happen. `reason`: whether one can be given. `duration`: the one
// that is proposed, where one can be given.
export function actionButton(job, { action, object = "", name, label, says, reason = false, duration = "" }) {
  if (!now.access.may.includes(action)) return null;
  const open = () => ask(job, { action, object, name, label, says, reason, duration });
  return h("button", { type: "button", id: `act-${action}-${object}`.replaceAll(" ", "-"), on: { click: open } }, label);
}

// A row of buttons; nothing without any.
export function actionRow(...buttons) {
  const shown = buttons.filter(Boolean);
  return shown.length ? h("p", { class: "actions" }, shown) : null;
}

function ask(job, wanted) {
  Object.assign(now, { wanted, job });
  element("action-title").textContent = wanted.label;
  element("action-says").textContent = wanted.says;
  element("action-typed").textContent = wanted.name;
  element("action-why").hidden = !wanted.reason;
  element("action-for").hidden = !wanted.duration;
  element("action-duration").value = wanted.duration;
  element("action-problem").textContent = "";
  check();
  element("action-dialog").showModal();
  element("action-name").focus();
}

function check() {
  element("action-submit").disabled = element("action-name").value !== now.wanted?.name;
}

async function perform() {
  const { wanted, job } = now;
  const submit = element("action-submit");
  submit.disabled = true;
  element("action-problem").textContent = "";
  try {
    const done = await act(`/api/jobs/${encodeURIComponent(job)}/actions`, {
      action: wanted.action,
      object: wanted.object,
      confirmation: element("action-name").value,
      reason: wanted.reason ? element("action-reason").value : "",
      duration: wanted.duration ? element("action-duration").value.trim() : "",
    });
    element("action-dialog").close();
    tell(done);
  } catch (error) {
    element("action-problem").textContent = error.message;
    submit.disabled = false;
  }
}

function tell(done) {
  const line = element("done");
  const missing = done.audit_problem ? ` ${done.audit_problem}` : "";
  line.textContent = `Done: ${done.detail}.${missing}`;
  line.classList.toggle("problem", Boolean(missing));
  line.hidden = false;
  now.after();
}
