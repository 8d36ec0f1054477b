// Ranks as a heat map: one strip per rank, time to the right, the darker (on dark: the brighter) the later it
// arrived. The scale is logarithmic and fixed, so that two jobs and two moments can be compared.

const CALM_S = 1e-3;
const LATE_S = 1;
const CELL = 3;

function makeRanks() {
  const list = make("ol", { class: "heat" });
  const summary = make("p", { class: "caption" });
  const ramp = make("span", { class: "ramp", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map((stop) => make("i", { class: `heat-${stop}` })));
  const scale = make("p", { class: "scale" }, make("span", {}, "1 ms behind and less"), ramp, make("span", {}, "1 s and more"));
  const full = rankTable();
  return {
    element: card("Ranks by lateness", "full", summary, list, scale, full.element),
    update(job, timeline) {
      const ranks = job.ranks ?? [];
      const stops = heatStops(ramp);
      show(summary, latest(ranks));
      attribute(list, "class", ranks.length > 16 ? "heat dense" : "heat");
      each(list, ranks, rankKey, makeStrip, (item, rank) => showStrip(item, rank, timeline, stops));
      full.update(ranks);
    },
  };
}

// Of these nobody is missed.
const QUIET_STATES = ["running", "foreign", "left"];
const rankKey = (rank, index) => (known(rank.rank) ? `${rank.rank}` : `none-${index}`);
const rankName = (rank) => (known(rank.rank) ? `${rank.rank}` : "none");

function latest(ranks) {
  const behind = ranks.filter((rank) => known(rank.lag_s)).sort((a, b) => b.lag_s - a.lag_s);
  const late = ranks.filter((rank) => rank.late).map((rank) => rank.rank);
  const stopped = ranks.filter((rank) => !QUIET_STATES.includes(rank.process_state)).map((rank) => `rank ${rankName(rank)} is ${rank.process_state}`);
  const facts = [late.length ? `Late: rank ${rankList(late)}` : "No rank is late", ...stopped];
  if (behind.length > 1) facts.push(`rank ${rankName(behind[0])} arrives last, ${seconds(behind[0].lag_s)} behind the first`);
  return `${facts.join("; ")}.`;
}

function makeStrip() {
  return make("li", {}, make("span", { class: "rank" }), make("canvas", { "aria-hidden": "true" }), make("span", { class: "number lag", "data-field": "lag_s" }), make("span", { class: "quiet number last", "data-field": "last_share" }));
}

function showStrip(item, rank, timeline, stops) {
  const [name, canvas, lag, last] = item.children;
  const trouble = rank.late || !QUIET_STATES.includes(rank.process_state);
  attribute(item, "class", trouble ? "late" : "");
  attribute(item, "title", `pid ${rank.pid}, ${rank.process_state}${rank.device_uuid ? `, ${rank.device_uuid}` : ""}${rank.nic ? `, ${rank.nic}` : ""}`);
  show(name, `${trouble ? "▲ " : ""}rank ${rankName(rank)}`);
  quantity(lag, seconds, rank.lag_s, "s behind the first");
  quantity(last, (value) => (known(value) ? `last in ${share(value)}` : UNKNOWN), rank.last_share);
  paintStrip(canvas, timeline.lag.get(rankName(rank)) ?? [], stops);
}

function paintStrip(canvas, lags, stops) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const shown = lags.slice(-Math.floor(width / CELL));
  shown.forEach((lag, index) => {
    if (!known(lag)) return;
    pen.fillStyle = heatColour(stops, lag);
    pen.fillRect(width - (shown.length - index) * CELL, 0, CELL - (height > 12 ? 0.5 : 0), height);
  });
}

/** The colours of the scale, as numbers: the style sheet has others for light and for dark. */
const heatStops = (ramp) => [...ramp.children].map((stop) => getComputedStyle(stop).backgroundColor.match(/\d+/g).slice(0, 3).map(Number));

function heatColour(stops, lag) {
  const heat = Math.min(Math.max(Math.log(Math.max(lag, 1e-9) / CALM_S) / Math.log(LATE_S / CALM_S), 0), 1) * (stops.length - 1);
  const [low, rest] = [Math.min(Math.floor(heat), stops.length - 2), heat];
  const mix = stops[low].map((from, channel) => Math.round(from + (stops[low + 1][channel] - from) * (rest - low)));
  return `rgb(${mix.join(" ")})`;
}

function rankTable() {
  const { box, body } = table("Ranks in full", [["Rank", "number"], ["Process", ""], ["Library", ""], ["Device", ""], ["Interface", ""], ["Behind", "number"], ["Last", "number"], ["Logical", "number"], ["Wire", "number"], ["Calls", "number"]]);
  const details = make("details", {}, make("summary", {}, "Ranks in full"), box);
  const names = ["rank", "process", "state", "device", "nic", "lag_s", "last_share", "logical", "wire", "calls"];
  let ranks = [];
  const fill = () => { if (details.open) each(body, ranks, rankKey, () => row(names, { process: "", state: "", device: "", nic: "" }), showRankRow); };
  details.addEventListener("toggle", fill);
  return { element: details, update(now) { ranks = now; fill(); } };
}

function showRankRow(line, rank) {
  const cells = line.cells_;
  show(cells.rank, rankName(rank));
  show(cells.process, `${rank.command || "process"} ${rank.pid}, ${rank.process_state}`);
  show(cells.state, rank.state);
  show(cells.device, rank.device_uuid ? `${known(rank.device) ? rank.device : ""} ${rank.device_uuid.slice(0, 12)}` : UNKNOWN);
  attribute(cells.device, "title", rank.device_uuid);
  show(cells.nic, rank.nic || UNKNOWN);
  quantity(cells.lag_s, seconds, rank.lag_s, "s");
  quantity(cells.last_share, share, rank.last_share);
  quantity(cells.logical, rate, rank.rates?.logical_bytes_per_s, "bytes/s");
  quantity(cells.wire, rate, rank.rates?.wire_bytes_per_s, "bytes/s");
  quantity(cells.calls, count, sums(rank.totals).calls);
}
