// Light, dark, or as the system is. The choice is kept in this browser.

const KEPT = "cutwater-theme";
const CHOICES = ["system", "light", "dark"];
const listeners = new Set();

const chosen = () => {
  const kept = localStorage.getItem(KEPT);
  return CHOICES.includes(kept) ? kept : "system";
};

export const onTheme = (act) => listeners.add(act);

export function startTheme(button) {
  const show = () => {
    const now = chosen();
    if (now === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    button.textContent = `Theme: ${now}`;
    for (const act of listeners) act();
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEPT, CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length]);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
