"""What the page should say about a node, and what it does say: both as plain values, for comparison.

The page keeps the exact value of every number in `data-value`; these are compared with the API's, not the
rounded text.
"""


def sums(totals, field):
    return sum(calls[field] for calls in totals["calls"])


def expected(node, label):
    """By selector: the value that the API gives for it (None: not known)."""
    job = next(job for job in node["jobs"] if job["label"] == label)
    speedups = [each["gain"]["speedup"] for each in node["jobs"] if each["gain"]["speedup"] is not None]
    totals = node["totals"]
    values = {
        "jobs": sum(each["state"] == "running" for each in node["jobs"]),
        "logical": sums(totals, "logical_bytes"),
        "wire": sums(totals, "wire_bytes"),
        "saved": sums(totals, "saved_bytes"),
        "speedup": max(speedups, default=None),
        "overhead": totals["hook_s"] / totals["hook_calls"] if totals["hook_calls"] else None,
        "logical-rate": job["rates"]["logical_bytes_per_s"],
        "wire-rate": job["rates"]["wire_bytes_per_s"],
        "effective": job["rates"]["effective_gbit_per_s"],
        "job-saved": job["gain"]["saved_bytes"],
        "job-speedup": job["gain"]["speedup"],
        "saved-time": job["gain"]["saved_s"],
        "step-time": job["rhythm"]["step_s"],
        "communication": job["communication_share"],
        "waiting": job["waiting_share"],
    }
    return {
        "figures": values,
        "ranks": [[rank["lag_s"], rank["last_share"]] for rank in job["ranks"]],
        "classes": sorted(([it["speedup"], it["vnmse"], it["ours_us"], it["vendor_us"]] for it in job["classes"]), key=repr),
        "calls": [[it["calls"], it["logical_bytes"], it["wire_bytes"], it["saved_bytes"]] for it in job["totals"]["calls"]],
        "communicators": [[it["size"], most(it, "issued"), most(it, "completed"), most(it, "oldest_in_flight_s"), max((member["pattern"]["deviations"] for member in it["ranks"]), default=None), most(it, "compressed_calls"), most(it, "vnmse"), most(it, "arena_bytes")] for it in job["communicators"]],
        "rhythm": [[rank["rhythm"]["step"], rank["rhythm"]["step_s"], rank["rhythm"]["step_calls"], *deviations(rank), rank["totals"]["ghosts"], rank["ghosts"] and rank["ghosts"]["with_s"]]
                   for rank in job["ranks"] if rank["rhythm"]["state"] != "off"],
        "paces": [change["step"] for change in reversed(job["pace_changes"])],
        "findings": [finding["text"] for finding in node["findings"]],
        "diagnosis": job["bound_by"]["why"],
        "decisions": len({repr([it["communicator"], it.get("index"), it.get("class"), it["decision"], it["reason"]]) for it in job["decisions"]}),
        "nics": [[nic["sent_bytes"], nic["received_bytes"]] for nic in node["nics"]],
        "devices": [device["memory_used_bytes"] for device in node["devices"]],
    }


def most(communicator, field):
    return max((member[field] for member in communicator["ranks"] if member[field] is not None), default=None)


def deviations(rank):
    counted = {row["kind"]: row["calls"] for row in rank["totals"]["deviations"]}
    return [counted.get(kind, 0) for kind in ("late", "missing", "extra", "resized")]


SHOWN = """
const value = (element) => element.dataset.value === "" ? null : Number(element.dataset.value);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const rows = (title, fields) => all(`[aria-label="${title}"] tbody tr`).map((row) => fields.map((field) => value(row.querySelector(`[data-field=${field}]`))));
const fact = (item, label) => value(item.querySelector(`[data-fact="${label}"] dd`));
return {
  figures: Object.fromEntries(all("[data-figure]").map((item) => [item.dataset.figure, value(item.querySelector(".value"))])),
  ranks: all(".heat li").map((item) => ["lag_s", "last_share"].map((field) => value(item.querySelector(`[data-field=${field}]`)))),
  classes: rows("Speedup and error by size class", ["speedup", "error", "ours", "vendor"]),
  calls: rows("Calls by kind and path", ["calls", "logical_bytes", "wire_bytes", "saved_bytes"]),
  communicators: rows("Communicators", ["size", "issued", "completed", "in_flight", "deviations", "compressed", "vnmse", "arena"]),
  rhythm: rows("Rhythm of the ranks", ["step", "step_s", "step_calls", "late", "missing", "extra", "resized", "ghosts", "ghost_gain"]),
  paces: all(".paces li span:first-child").map((text) => Number(text.textContent.match(/since step ([\\d,]+):/)[1].replaceAll(",", ""))),
  findings: all("#findings-list .what").map((text) => text.textContent),
  diagnosis: document.querySelector(".diagnosis span").textContent.trim(),
  decisions: document.querySelectorAll(".decisions li").length,
  nics: all("#nic-strip > li").filter((item) => item.querySelector('[data-fact="Drops"]')).map((item) => [fact(item, "Sent"), fact(item, "Received")]),
  devices: all("#device-strip > li").map((item) => item.querySelector('[data-fact="Memory"]') ? fact(item, "Memory") : null),
};
"""


def shown(browser):
    values = browser.run(SHOWN)
    values["classes"].sort(key=repr)
    return values


def numbers(value):
    """JSON's 1.0 and JavaScript's 1 are one number."""
    if isinstance(value, dict):
        return {key: numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [numbers(each) for each in value]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
