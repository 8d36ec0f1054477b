// What the tuner found, class by class, what it decided, and why.

const DECISION_SIGNS = { compressed: "●", vendor: "○", trial: "◐", would: "◑", "would-not": "○", frozen: "◆" };
const decisionText = (decision) => `${DECISION_SIGNS[decision] ?? "·"} ${words(decision)}`;
const shortName = (communicator) => String(communicator ?? "").slice(0, 8);

function makeClasses() {
  const { box, body } = table("Speedup and error by size class", [
    ["Size of a call", ""], ["Decision", ""], ["Speedup", "", "compressed against the vendor, least over all ranks; the line is 1"],
    ["Error", "", "vNMSE: squared error of the result by its squared size; the bar is logarithmic from 1e-7 to 1e-2"], ["Ours", "number"], ["Vendor's", "number"], ["Datatype", ""], ["Communicator", ""]]);
  const none = make("p", { class: "quiet" }, "Nothing was tried yet. In mode on or shadow the tuner tries each size class at its first calls.");
  const names = ["size", "decision", "speedup", "error", "ours", "vendor", "datatype", "communicator"];
  const kinds = { size: "", datatype: "", decision: "", speedup: "barred", error: "barred", communicator: "code" };
  return {
    element: card("Speedup and error by size class", "sizes", box, none),
    update(job) {
      const classes = [...(job.classes ?? [])].sort((a, b) => a.communicator.localeCompare(b.communicator) || a.from_bytes - b.from_bytes || a.datatype.localeCompare(b.datatype));
      const most = Math.max(2, ...classes.map((each) => each.speedup).filter(known));
      visible(box, classes.length > 0);
      attribute(box, "data-one", new Set(classes.map((it) => it.communicator)).size < 2);
      visible(none, classes.length === 0);
      each(body, classes, (it) => JSON.stringify([it.communicator, it.collective, it.datatype, it.from_bytes]), () => barredRow(names, kinds, ["speedup", "error"]), (line, it) => showClass(line, it, most));
    },
  };
}

/** A row in which the cells named in `barred` hold a number with a bar beside it. */
function barredRow(names, kinds, barred) {
  const line = row(names, kinds);
  for (const name of barred) {
    line.cells_[name].removeAttribute("data-field");
    const value = make("span", { class: "number", "data-field": name });
    const strip = bar(`${name}-bar`);
    line.cells_[name].append(value, strip);
    line.cells_[name] = Object.assign(value, { strip_: strip });
  }
  return line;
}

function showClass(line, it, most) {
  const cells = line.cells_;
  attribute(line, "class", it.decision);
  show(cells.size, sizeRange(it.from_bytes, it.below_bytes));
  show(cells.datatype, `${it.datatype}`);
  attribute(cells.datatype, "title", it.collective);
  show(cells.decision, decisionText(it.decision));
  attribute(cells.decision, "title", it.reason);
  quantity(cells.speedup, factor, it.speedup);
  cells.speedup.strip_.fill_((it.speedup ?? 0) / most);
  cells.speedup.strip_.style.setProperty("--one", `${100 / most}%`);
  quantity(cells.error, error, it.vnmse);
  cells.error.strip_.fill_(known(it.vnmse) && it.vnmse > 0 ? (Math.log10(it.vnmse) + 7) / 5 : 0);
  quantity(cells.ours, (us) => seconds(known(us) ? us / 1e6 : null), it.ours_us, "µs");
  quantity(cells.vendor, (us) => seconds(known(us) ? us / 1e6 : null), it.vendor_us, "µs");
  show(cells.communicator, shortName(it.communicator));
  attribute(cells.communicator, "title", it.communicator);
}

const OUTCOMES = {
  vendor: "go to the vendor", compressed: "are compressed", trial: "are tried, with exact results", would: "would be compressed", "would-not": "would not be compressed",
  frozen: "stay as they are, since a graph holds them", resumed: "are again as they were decided before", withdrawn: "stay as they were: a proposal did not come about",
};

function makeDecisions() {
  const list = make("ol", { class: "decisions" });
  const none = make("p", { class: "quiet" }, "No decision yet.");
  return {
    element: card("Decisions", "", make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Decisions, newest first" }, list), none),
    update(job) {
      const merged = mergeDecisions(job.decisions ?? []);
      visible(none, merged.length === 0);
      each(list, merged, ({ key }) => key, () => make("li", {}, make("p", {}, make("span"), make("strong"), make("span")), make("p", { class: "reason" }), make("p", { class: "quiet" })), showDecision);
    },
  };
}

/** The same decision, told by several ranks, is one. Newest first. */
function mergeDecisions(records) {
  const merged = new Map();
  for (const record of records) {
    const key = JSON.stringify([record.communicator, record.index, record.class, record.decision, record.reason]);
    const known_ = merged.get(key) ?? { key, record, tellers: [] };
    known_.tellers.push(record.rank);
    merged.delete(key);
    merged.set(key, known_);
  }
  return [...merged.values()].reverse().slice(0, 60);
}

function showDecision(item, { record, tellers }) {
  const [what, reason, about] = item.children;
  const which = record.class ? `${record.class.collective} of ${record.class.datatype}, ${sizeRange(record.class.from_bytes, record.class.below_bytes)}: calls` : "All calls";
  const from = known(record.index) ? ` from call ${plain(record.index)} on` : "";
  attribute(item, "class", record.decision);
  const [subject, outcome, start] = what.children;
  show(subject, `${which} `);
  show(outcome, OUTCOMES[record.decision] ?? words(record.decision));
  show(start, `${from}.`);
  show(reason, asSentence(record.reason));
  const numbers = [known(record.speedup) ? `${factor(record.speedup)}` : null, known(record.vnmse) ? `error ${error(record.vnmse)}` : null,
    record.who?.length ? `because of rank ${rankList(record.who)}` : null, `communicator ${shortName(record.communicator)}`, `told by rank ${rankList(tellers)}`];
  show(about, numbers.filter(Boolean).join(", "));
}
