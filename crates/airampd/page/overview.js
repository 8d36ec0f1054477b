// What one sees first: the findings, and the figures of the whole node.

function sums(totals) {
  const sum = { calls: 0, logical_bytes: 0, wire_bytes: 0, saved_bytes: 0 };
  for (const calls of totals?.calls ?? []) for (const field of Object.keys(sum)) sum[field] += calls[field] ?? 0;
  return sum;
}

const SIGNS = { error: "■", warning: "▲", info: "●" };

/** Severity as sign, word and colour, so that none of them has to be seen. */
function severity(element, level) {
  attribute(element, "class", `severity ${level in SIGNS ? level : "info"}`);
  show(element, `${SIGNS[level] ?? SIGNS.info} ${level}`);
}

const jobName = (label) => (label === "" ? "without a name" : label);

function showFindings(node) {
  const findings = node.findings ?? [];
  each(byId("findings-list"), findings, (finding) => JSON.stringify([finding.kind, finding.job, finding.communicator, finding.ranks]), () => {
    const item = make("li", {}, make("span"), make("p", { class: "what" }), make("p", { class: "quiet" }));
    return item;
  }, (item, finding) => {
    const [level, what, where] = item.children;
    attribute(item, "class", finding.severity);
    severity(level, finding.severity);
    show(what, finding.text);
    const ranks = finding.ranks?.length ? `, rank ${rankList(finding.ranks)}` : "";
    show(where, `${words(finding.kind)}, job ${jobName(finding.job)}${ranks}, since ${moment(finding.since_unix_ms)}`);
  });
  visible(byId("findings-none"), findings.length === 0);
}

/** Name, title and a function that fills value and note. */
const FIGURES = [
  ["jobs", "Jobs running", (node, value, note) => {
    const running = node.jobs.filter((job) => job.state === "running").length;
    quantity(value, plain, running);
    show(note, `${plain(node.processes)} processes, ${plain(node.jobs.length - running)} ended lately`);
  }],
  ["logical", "Bytes moved", (node, value, note) => {
    quantity(value, bytes, sums(node.totals).logical_bytes, "bytes");
    show(note, `in ${count(sums(node.totals).calls)} calls`);
  }],
  ["wire", "Sent on the wire", (node, value, note) => {
    quantity(value, bytes, sums(node.totals).wire_bytes, "bytes");
    show(note, `now ${rate(node.rates?.wire_bytes_per_s)}`);
  }],
  ["saved", "Saved on the wire", (node, value, note) => {
    const { wire_bytes: wire, saved_bytes: saved } = sums(node.totals);
    quantity(value, bytes, saved, "bytes");
    show(note, wire + saved > 0 ? `${share(saved / (wire + saved))} of what would have been sent` : "nothing was sent yet");
  }],
  ["speedup", "Speedup", (node, value, note) => {
    const measured = node.jobs.map((job) => job.gain?.speedup).filter(known).sort((a, b) => a - b);
    quantity(value, factor, measured.at(-1));
    const saved = node.jobs.map((job) => job.gain?.saved_s).filter(known).reduce((sum, each) => sum + each, 0);
    const range = measured.length > 1 ? `${factor(measured[0])} and more, ` : "";
    show(note, measured.length ? `${range}measured; ${seconds(Math.abs(saved))} ${saved < 0 ? "lost" : "saved"}` : "not measured: nothing is compressed");
  }],
  ["overhead", "Cost per call", (node, value, note) => {
    const { hook_s: time, hook_calls: calls } = node.totals ?? {};
    quantity(value, seconds, calls > 0 ? time / calls : null, "s");
    show(note, "of the library, on the host");
  }],
];

function showOverview(node) {
  each(byId("overview-figures"), FIGURES, ([name]) => name, figure, (item, [, , fill]) => fill(node, item.children[1], item.children[2]));
  const unreadable = node.unreadable ?? [];
  visible(byId("unreadable"), unreadable.length > 0);
  const many = node.unreadable_count ?? unreadable.length;
  show(byId("unreadable"), `${plain(many)} telemetry ${many === 1 ? "file" : "files"} cannot be read: ${unreadable.map(({ file, why }) => `${file} (${why})`).join(", ")}`);
}

function figure([name, title]) {
  return make("div", { class: "figure", "data-figure": name }, make("dt", {}, title), make("dd", { class: "value" }), make("dd", { class: "note" }));
}
