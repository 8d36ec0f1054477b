// Communicators, calls by kind and path, why calls were not compressed, and what other links would give.

function makeCommunicators() {
  const { box, body } = table("Communicators", [["Communicator", ""], ["State", ""], ["Ranks", "number"], ["Agreement", ""], ["Issued", "number"], ["Completed", "number"],
    ["Oldest in flight", "number"], ["Pattern", "", "of the calls of its ranks"], ["Deviations", "number", "calls that were not as the pattern foresaw, most of all ranks"], ["Compressed", "number"], ["Error", "number", "vNMSE, the worst of its ranks"], ["Arena", "number"]]);
  const names = ["name", "state", "size", "agreement", "issued", "completed", "in_flight", "pattern", "deviations", "compressed", "vnmse", "arena"];
  return {
    element: card("Communicators", "full", box),
    update(job) {
      each(body, job.communicators ?? [], (it) => it.name, () => row(names, { name: "code", state: "", agreement: "", pattern: "" }), showCommunicator);
    },
  };
}

const greatest = (members, field) => { const all = members.map((member) => member[field]).filter(known); return all.length ? Math.max(...all) : null; };
const STATE_SIGNS = { hung: "■ ", poisoned: "■ ", late: "▲ " };

function showCommunicator(line, it) {
  const cells = line.cells_;
  const members = it.ranks ?? [];
  attribute(line, "class", it.state);
  show(cells.name, it.name);
  const missing = it.missing?.length ? `, rank ${rankList(it.missing)} missing at call ${plain(it.behind_sequence)}` : "";
  show(cells.state, `${STATE_SIGNS[it.state] ?? ""}${it.state}${missing}`);
  quantity(cells.size, plain, it.size);
  const agreements = [...new Set(members.map((member) => (member.reason ? `${member.agreement}: ${member.reason}` : member.agreement)))];
  show(cells.agreement, agreements.join("; "));
  quantity(cells.issued, plain, greatest(members, "issued"));
  quantity(cells.completed, plain, greatest(members, "completed"));
  quantity(cells.in_flight, seconds, greatest(members, "oldest_in_flight_s"), "s");
  const patterns = members.map((member) => member.pattern ?? {});
  show(cells.pattern, [...new Set(patterns.map((pattern) => patternName(pattern.state)))].join(", "));
  quantity(cells.deviations, plain, greatest(patterns, "deviations"), "calls");
  quantity(cells.compressed, plain, greatest(members, "compressed_calls"), "calls");
  quantity(cells.vnmse, error, greatest(members, "vnmse"));
  quantity(cells.arena, bytes, greatest(members, "arena_bytes"), "bytes");
}

function makeTraffic() {
  const calls = table("Calls by kind and path", [["Collective", ""], ["Path", ""], ["Datatype", ""], ["Calls", "number"], ["Logical", "number"], ["Wire", "number"], ["Saved", "number"]]);
  const names = ["kind", "path", "datatype", "calls", "logical_bytes", "wire_bytes", "saved_bytes"];
  const reasons = make("p", { class: "caption" });
  return {
    element: card("Calls by kind and path", "", calls.box, reasons),
    update(job) {
      each(calls.body, job.totals?.calls ?? [], (it) => `${it.kind} ${it.path} ${it.datatype}`, () => row(names, { kind: "", path: "", datatype: "" }), (line, it) => {
        for (const name of ["kind", "path", "datatype"]) show(line.cells_[name], words(it[name]));
        quantity(line.cells_.calls, plain, it.calls);
        for (const name of names.slice(4)) quantity(line.cells_[name], bytes, it[name], "bytes");
      });
      show(reasons, `${reasonText(job.totals)} ${errorText(job.totals)}`);
    },
  };
}

function reasonText(totals) {
  const fallbacks = [...(totals?.fallbacks ?? [])].sort((a, b) => b.calls - a.calls);
  if (fallbacks.length === 0) return "No call was left to the vendor for a reason of ours.";
  return `Left to the vendor because of: ${fallbacks.map(({ reason, calls }) => `${words(reason)} (${plain(calls)} calls)`).join(", ")}.`;
}

function errorText(totals) {
  const errors = totals?.errors ?? [];
  return errors.length === 0 ? "No call returned an error." : `Errors: ${errors.map(({ result, calls }) => `result ${result} (${plain(calls)} calls)`).join(", ")}.`;
}

function makeLinks() {
  const { box, body } = table("On other links", [["Link", "number"], ["Speedup", ""]]);
  const none = make("p", { class: "quiet" }, "Known once a class has been measured.");
  return {
    element: card("On other links", "links", box, none, make("p", { class: "quiet" }, "What compression would gain, by a model of the measured times.")),
    update(job) {
      const links = (job.gain?.on_other_links ?? []).filter((link) => known(link.speedup));
      const most = Math.max(2, ...links.map((link) => link.speedup));
      visible(box, links.length > 0);
      visible(none, links.length === 0);
      each(body, links, (link) => link.gbit_per_s, () => barredRow(["link", "speedup"], { speedup: "barred" }, ["speedup"]), (line, link) => {
        show(line.cells_.link, `${plain(link.gbit_per_s)} Gbit/s`);
        quantity(line.cells_.speedup, factor, link.speedup);
        line.cells_.speedup.strip_.fill_(link.speedup / most);
        line.cells_.speedup.strip_.style.setProperty("--one", `${100 / most}%`);
      });
    },
  };
}
