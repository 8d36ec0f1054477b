// The list of events with its filter; the newest first.

const LEVELS = { info: 0, warning: 1, error: 2 };
const SHOWN = 200;

function wantedEvents() {
  const least = LEVELS[byId("event-severity").value] ?? 0;
  const text = byId("event-text").value.trim().toLowerCase();
  const only = byId("event-job").checked;
  return [...feed.events.values()].filter((event) => (LEVELS[event.severity] ?? 0) >= least)
    .filter((event) => !only || event.job === feed.job)
    .filter((event) => !text || [event.kind, words(event.kind), event.job, event.text, event.communicator, `rank ${event.rank}`].some((field) => String(field).toLowerCase().includes(text)))
    .sort((a, b) => b.seq - a.seq);
}

function showEvents() {
  const events = wantedEvents();
  const names = ["time", "severity", "kind", "job", "rank", "text"];
  each(byId("event-rows"), events.slice(0, SHOWN), (event) => event.seq, () => {
    const line = row(names, { time: "", severity: "", kind: "", job: "", text: "text" });
    line.cells_.severity.append(make("span"));
    return line;
  }, showEvent);
  const more = events.length > SHOWN ? `, the newest ${SHOWN} shown` : "";
  show(byId("event-count"), `${plain(events.length)} of ${plain(feed.events.size)}${more}`);
}

function showEvent(line, event) {
  const cells = line.cells_;
  show(cells.time, moment(event.time_unix_ms));
  severity(cells.severity.firstChild, event.severity);
  show(cells.kind, words(event.kind));
  show(cells.job, jobName(event.job));
  show(cells.rank, known(event.rank) ? event.rank : UNKNOWN);
  const step = known(event.step) ? ` (step ${plain(event.step)})` : "";
  show(cells.text, `${event.text}${step}`);
  attribute(line, "title", [event.communicator && `communicator ${event.communicator}`, event.device_uuid, event.nic].filter(Boolean).join(", ") || null);
}

function startEvents() {
  for (const id of ["event-severity", "event-text", "event-job"]) byId(id).addEventListener("input", showEvents);
}
