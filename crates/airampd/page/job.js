// The list of jobs (tabs, moved through with the arrow keys) and the panel of the one that is selected.

function showJobs(node) {
  const jobs = node.jobs;
  visible(byId("no-job"), jobs.length === 0);
  visible(byId("jobs-body"), jobs.length > 0);
  each(byId("job-tabs"), jobs, jobKey, makeTab, showTab);
  const job = selectedJob();
  if (job) showJob(job);
}

function makeTab(job) {
  const key = jobKey(job);
  const tab = make("button", { type: "button", role: "tab", "aria-controls": "job" },
    make("span", { class: "name" }), make("span", { class: "quiet" }), make("span", { class: "quiet number" }));
  tab.addEventListener("click", () => select(key));
  tab.addEventListener("keydown", (event) => moveTab(tab, event));
  return tab;
}

function showTab(tab, job, index) {
  const [name, about, speed] = tab.children;
  const chosen = jobKey(job) === feed.job;
  attribute(tab, "id", `job-tab-${index}`);
  attribute(tab, "aria-selected", chosen);
  attribute(tab, "tabindex", chosen ? 0 : -1);
  attribute(tab, "class", job.state);
  if (chosen) attribute(byId("job"), "aria-labelledby", tab.id);
  const troubled = (feed.node.findings ?? []).some((finding) => finding.job === jobKey(job));
  show(name, `${troubled ? "▲ " : ""}Job ${jobName(jobKey(job))}`);
  show(about, `${job.user || "unknown user"}, ${job.mode}, ${plain(job.ranks_here)} of ${plain(job.size)} ranks here`);
  show(speed, job.state === "ended" ? `ended ${moment(job.ended_unix_ms)}` : rate(job.rates?.logical_bytes_per_s));
}

function moveTab(tab, event) {
  const tabs = [...byId("job-tabs").children];
  const here = tabs.indexOf(tab);
  const to = { ArrowDown: here + 1, ArrowRight: here + 1, ArrowUp: here - 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = tabs[(to + tabs.length) % tabs.length];
  next.click();
  next.focus();
}

let panel = null;

function showJob(job) {
  panel ??= makePanel();
  const timeline = feed.timelines.get(feed.job) ?? emptyTimeline();
  showFacts(panel.facts, job);
  const marks = [...feed.events.values()].filter((event) => event.job === jobKey(job) && event.severity !== "info").map((event) => ({ time: event.time_unix_ms, severity: event.severity }));
  panel.bandwidth.update(timeline, marks);
  panel.latency.update(timeline, marks);
  for (const part of panel.parts) part.update(job, timeline);
}

function makePanel() {
  const facts = makeFacts();
  const bandwidth = plot("Bandwidth", [
    { name: "logical", field: "logical_bytes_per_s", kind: "logical" },
    { name: "on the wire", field: "wire_bytes_per_s", kind: "wire" },
    { name: "the vendor alone would send", field: "vendor_bytes_per_s", kind: "without" },
  ], rate, (timeline) => `${extremes("Logical", timeline.logical_bytes_per_s, rate)} ${extremes("On the wire", timeline.wire_bytes_per_s, rate)}`);
  const latency = plot("Latency", [{ name: "mean of the sampled calls", field: "mean_latency_s", kind: "latency" }], seconds,
    (timeline) => extremes("Mean latency", timeline.mean_latency_s, seconds));
  const parts = [makeRanks(), makeRhythm(), makeClasses(), makeTraffic(), makeDecisions(), makeLinks(), makeCommunicators()];
  const [ranks, rhythm, classes, traffic, decisions, links, communicators] = parts.map((part) => part.element);
  byId("job").append(facts.element, bandwidth.element, latency.element, ranks, rhythm, make("div", { class: "column wide" }, classes, traffic), make("div", { class: "column narrow" }, decisions, links), communicators);
  return { facts, bandwidth, latency, parts };
}

function extremes(name, values, format) {
  const all = values.filter(known);
  if (all.length === 0) return "Not measured yet.";
  return `${name}: now ${format(all.at(-1))}, between ${format(Math.min(...all))} and ${format(Math.max(...all))}.`;
}

const JOB_FIGURES = [
  ["logical-rate", "Logical", "the application's bytes", rate, (job) => job.rates?.logical_bytes_per_s, "bytes/s"],
  ["wire-rate", "On the wire", "sent to peers", rate, (job) => job.rates?.wire_bytes_per_s, "bytes/s"],
  ["effective", "Effective", "in device time of sampled calls", (value) => (known(value) ? `${digits(value)} Gbit/s` : UNKNOWN), (job) => job.rates?.effective_gbit_per_s, "Gbit/s"],
  ["job-saved", "Saved", "on the wire, in all", bytes, (job) => job.gain?.saved_bytes, "bytes"],
  ["job-speedup", "Speedup", "of compressed calls, measured", factor, (job) => job.gain?.speedup, ""],
  ["saved-time", "Time saved", "device time", seconds, (job) => job.gain?.saved_s, "s"],
  ["step-time", "Step", "of the slowest rank", seconds, (job) => job.rhythm?.step_s, "s"],
  ["communication", "Communication", "of wall time", share, (job) => job.communication_share, ""],
  ["waiting", "Waiting", "for the last rank, of wall time", share, (job) => job.waiting_share, ""],
];

function makeFacts() {
  const name = make("h3");
  const diagnosis = make("p", { class: "diagnosis" }, make("strong"), make("span"));
  const figures = make("dl", { class: "figures small" });
  const about = make("p", { class: "quiet" });
  return { element: make("div", { class: "facts" }, name, diagnosis, figures, about), name, diagnosis, figures, about };
}

const BOUNDS = { compute: "Bound by compute.", communication: "Bound by communication.", straggler: "Held back by a straggler.", host: "Bound by the host.", unknown: "Not known what it is bound by." };

function showFacts(facts, job) {
  show(facts.name, `Job ${jobName(jobKey(job))}`);
  const [verdict, why] = facts.diagnosis.children;
  attribute(verdict, "data-bound", job.bound_by?.what);
  show(verdict, BOUNDS[job.bound_by?.what] ?? BOUNDS.unknown);
  show(why, ` ${job.bound_by?.why ?? ""}`);
  each(facts.figures, JOB_FIGURES, ([id]) => id, figure, (item, [, , note, format, read, unit]) => {
    quantity(item.children[1], format, read(job), unit);
    show(item.children[2], note);
  });
  const versions = (job.versions ?? []).join(", ");
  const origin = job.source && job.source !== "none" ? `, named by ${job.source}` : "";
  show(facts.about, `${job.state}, mode ${job.mode}, user ${job.user || "unknown"}${origin}, ${job.vendor || "vendor unknown"}, AIRamp ${versions || "unknown"}, since ${moment(job.started_unix_ms)}`);
}
