// Light or dark, and the layout for a screen on the wall (`?wall`), where the page walks through the jobs by itself.

const WALL_TURN_MS = 20000;
const onWall = new URLSearchParams(location.search).has("wall");

/** Storage may be forbidden; then the choice holds until the page is closed. */
function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* see above */ }
}

function wear(theme) {
  attribute(document.documentElement, "data-theme", theme === "light" || theme === "dark" ? theme : null);
}

function startAppearance(changed) {
  const choice = byId("theme");
  const before = remembered("airamp-theme");
  choice.value = ["light", "dark"].includes(before) ? before : "system";
  wear(choice.value);
  choice.addEventListener("change", () => { wear(choice.value); remember("airamp-theme", choice.value); changed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  if (onWall) startWall();
}

function startWall() {
  document.documentElement.classList.add("wall");
  const link = byId("wall");
  show(link, "Leave the wall");
  attribute(link, "href", location.pathname);
  setInterval(() => {
    const jobs = (feed.node?.jobs ?? []).filter((job) => job.state === "running");
    if (feed.paused || jobs.length < 2) return;
    select(jobKey(jobs[(jobs.findIndex((job) => jobKey(job) === feed.job) + 1) % jobs.length]));
  }, WALL_TURN_MS);
}
