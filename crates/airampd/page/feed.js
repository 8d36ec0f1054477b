// Asks the daemon once a second, and says what came and whether it is current. It keeps no more than a timeline
// of 600 looks per job and 500 events, stops while the page is hidden or paused, and slows down when nobody answers.

const PERIOD_MS = 1000;
const SLOWEST_MS = 8000;
const LOOKS = 600;
const EVENTS = 500;

const feed = {
  node: null,
  /** "loading", "live", "paused", "stale" or "token" */
  link: "loading",
  receivedMs: null,
  paused: false,
  job: null,
  token: null,
  timelines: new Map(),
  events: new Map(),
  changed: () => {},
};

const jobKey = (job) => job.label ?? job.job;
const selectedJob = () => feed.node?.jobs.find((job) => jobKey(job) === feed.job) ?? null;

let timer = null;
let failures = 0;
let asking = false;
/** Somebody wanted a look while one was under way: with another token, or after a pause. */
let askAgain = false;

async function ask(path) {
  const headers = {};
  const token = feed.token ?? storedToken();
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (!response.ok) throw Object.assign(new Error(`${path}: ${response.status}`), { status: response.status });
  return response.json();
}

async function look() {
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  clearTimeout(timer);
  try {
    const node = await ask("/api/v1/node");
    takeNode(node);
    await takeTimeline();
    failures = 0;
    feed.receivedMs = Date.now();
    feed.link = feed.paused ? "paused" : "live";
  } catch (problem) {
    failures += 1;
    feed.link = problem.status === 401 || problem.status === 403 ? "token" : feed.node || failures > 2 ? "stale" : "loading";
  }
  asking = false;
  try {
    feed.changed();
  } finally {
    schedule();
  }
}

function schedule() {
  clearTimeout(timer);
  const again = askAgain;
  askAgain = false;
  if (feed.paused || document.hidden || (feed.link === "token" && !again)) return;
  timer = setTimeout(look, Math.min(PERIOD_MS * 2 ** Math.min(failures, 3), SLOWEST_MS));
}

function takeNode(node) {
  // A daemon that began anew tells again what it still finds, under other numbers.
  if (node.uptime_s < feed.node?.uptime_s) feed.events.clear();
  feed.node = { ...node, jobs: node.jobs ?? [] };
  if (!selectedJob()) feed.job = firstToShow(feed.node.jobs);
  for (const event of node.events ?? []) feed.events.set(event.seq, event);
  const surplus = [...feed.events.keys()].sort((a, b) => a - b).slice(0, Math.max(0, feed.events.size - EVENTS));
  for (const seq of surplus) feed.events.delete(seq);
  const current = new Set(feed.node.jobs.map(jobKey));
  for (const key of feed.timelines.keys()) if (!current.has(key)) feed.timelines.delete(key);
}

/** Until somebody chooses another: one that runs, before those that ended a while ago. */
function firstToShow(jobs) {
  const job = jobs.find((each) => each.state !== "ended") ?? jobs[0];
  return job ? jobKey(job) : null;
}

const SERIES = ["logical_bytes_per_s", "wire_bytes_per_s", "saved_bytes_per_s", "mean_latency_s", "calls_per_s"];

async function takeTimeline() {
  const job = selectedJob();
  if (!job) return;
  const kept = feed.timelines.get(feed.job) ?? emptyTimeline();
  const since = kept.times.at(-1) ?? 0;
  const key = feed.job;
  try {
    append(kept, await ask(`/api/v1/timeline?job=${encodeURIComponent(jobKey(job))}&since=${since}`), since);
  } catch (problem) {
    // A job of which nobody keeps a history is no reason to doubt the daemon.
    if (problem.status !== 404) throw problem;
  }
  feed.timelines.set(key, kept);
}

function emptyTimeline() {
  return { times: [], lag: new Map(), vendor_bytes_per_s: [], ...Object.fromEntries(SERIES.map((name) => [name, []])) };
}

/** Takes over what is later than `since`, whether or not the daemon left out the rest. */
function append(kept, news, since) {
  (news.times_unix_ms ?? []).forEach((time, index) => {
    if (time <= since) return;
    const before = kept.times.length;
    kept.times.push(time);
    for (const name of SERIES) kept[name].push(news[name]?.[index] ?? null);
    const [wire, saved] = [kept.wire_bytes_per_s.at(-1), kept.saved_bytes_per_s.at(-1)];
    kept.vendor_bytes_per_s.push(known(wire) && known(saved) ? wire + saved : null);
    for (const [rank, lags] of Object.entries(news.lag_s ?? {})) {
      if (!kept.lag.has(rank)) kept.lag.set(rank, new Array(before).fill(null));
      kept.lag.get(rank).push(lags[index] ?? null);
    }
    for (const lags of kept.lag.values()) if (lags.length <= before) lags.push(null);
  });
  const surplus = Math.max(0, kept.times.length - LOOKS);
  for (const values of [kept.times, kept.vendor_bytes_per_s, ...SERIES.map((name) => kept[name]), ...kept.lag.values()]) values.splice(0, surplus);
}

function select(key) {
  if (feed.job === key) return;
  feed.job = key;
  feed.changed();
  takeTimeline().then(feed.changed, () => {});
}

function pause(yes) {
  feed.paused = yes;
  if (feed.link === "live" || feed.link === "paused") feed.link = yes ? "paused" : "live";
  feed.changed();
  if (yes) clearTimeout(timer);
  else look();
}

/** Storage may be forbidden; then the token holds until the page is loaded again. */
function storedToken() {
  try { return sessionStorage.getItem("airamp-token"); } catch { return null; }
}

function useToken(token) {
  feed.token = token;
  try { sessionStorage.setItem("airamp-token", token); } catch { /* see above */ }
  feed.link = "loading";
  look();
}

function startFeed(changed) {
  feed.changed = changed;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else if (!feed.paused) look();
  });
  look();
}
