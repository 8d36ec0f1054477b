// A plot of values over time, drawn as SVG at the size it has on the screen. The arrow keys move a cursor whose
// values are read out; a sentence and a table say the same in words.

/** In units of the page's type size, so that it holds on a telephone and on a wall. */
const MARGIN_REM = { left: 5, right: 0.5, top: 0.5, bottom: 1.5 };
const GAP_MS = 5000;

/** `series`: [{ name, field, kind }], the first drawn as an area. `format`: value -> text with unit. */
function plot(title, series, format, summary) {
  const picture = draw("svg", { class: "plot", "aria-hidden": "true" });
  const frame = make("div", { class: "plot-frame", tabindex: "0", role: "slider", "aria-label": `${title}: the arrow keys read out values`, "aria-valuemin": "0" }, picture);
  const readout = make("p", { class: "readout" });
  const caption = make("p", { class: "caption" });
  const values = make("tbody");
  const names = series.map(({ name }) => make("th", { scope: "col", class: "number" }, name));
  const details = make("details", {}, make("summary", {}, "The last values as a table"),
    make("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": `${title}, last values` },
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Time"), ...names)), values)));
  const state = { series, format, picture, frame, readout, values, details, timeline: null, cursor: null };
  new ResizeObserver(() => paint(state)).observe(frame);
  frame.addEventListener("keydown", (event) => moveCursor(state, event));
  frame.addEventListener("pointermove", (event) => pointAt(state, event));
  for (const over of ["pointerleave", "blur"]) frame.addEventListener(over, () => setCursor(state, null));
  details.addEventListener("toggle", () => fillTable(state));
  const element = card(title, "half", legend(series), frame, readout, caption, details);
  return {
    element,
    update(timeline, marks) {
      state.timeline = timeline;
      state.marks = marks;
      show(caption, timeline.times.length > 1 ? summary(timeline) : "Two looks are needed for a line.");
      paint(state);
      fillTable(state);
    },
  };
}

function legend(series) {
  return make("ul", { class: "legend" }, ...series.map(({ name, kind }) => make("li", { class: kind }, make("span", { class: "swatch", "aria-hidden": "true" }), name)));
}

function paint(state) {
  const { picture, frame, timeline, series } = state;
  const [width, height] = [frame.clientWidth, frame.clientHeight];
  if (!timeline || width < 40) return;
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const margin = Object.fromEntries(Object.entries(MARGIN_REM).map(([side, size]) => [side, size * rem]));
  const times = timeline.times;
  const end = times.at(-1) ?? Date.now();
  const start = Math.min(times[0] ?? end, end - 60000);
  const peak = Math.max(0, ...series.flatMap(({ field }) => timeline[field].filter(known)));
  const axis = niceAxis(peak, state.format);
  const across = (time) => margin.left + ((time - start) / (end - start)) * (width - margin.left - margin.right);
  const down = (value) => height - margin.bottom - (value / axis.top) * (height - margin.top - margin.bottom);
  Object.assign(state, { across, down, width, height, margin });
  attribute(picture, "viewBox", `0 0 ${width} ${height}`);
  picture.replaceChildren(...grid(axis, state), ...clockTicks(start, end, state), ...markLines(state, start),
    ...shapes(state), draw("g", { class: "cursor" }));
  attribute(frame, "aria-valuemax", Math.max(0, times.length - 1));
  if (state.cursor !== null) setCursor(state, Math.min(state.cursor, times.length - 1));
  else attribute(frame, "aria-valuenow", Math.max(0, times.length - 1)), attribute(frame, "aria-valuetext", sentence(state, times.length - 1));
}

/** The top of the axis and its lines, at round numbers of what is shown (bits where bytes are stored). */
function niceAxis(peak, format) {
  const unit = format === rate ? 1 / 8 : 1;
  const rough = (peak > 0 ? peak : unit) / unit / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power * unit;
  const lines = Math.max(1, Math.ceil(peak / step - 1e-9));
  return { top: lines * step, values: Array.from({ length: lines }, (_, index) => (index + 1) * step) };
}

function grid(axis, { down, width, margin, format }) {
  return [0, ...axis.values].flatMap((value) => [
    draw("line", { class: value === 0 ? "grid base" : "grid", x1: margin.left, x2: width, y1: down(value), y2: down(value) }),
    draw("text", { class: "tick end", x: margin.left - 8, y: down(value), dy: "0.32em" }, value === 0 ? "0" : format(value).replace(/\.0+ /, " ")),
  ]);
}

function clockTicks(start, end, { across, width, height, margin }) {
  const step = [15, 30, 60, 120, 300].find((each) => (end - start) / 1000 / each <= width / margin.left / 1.3) * 1000 || 300000;
  const ticks = [];
  for (let time = Math.ceil(start / step) * step; time <= end; time += step) {
    const x = across(time);
    if (x - margin.left / 2 < margin.left * 0.9 || width - x < margin.left / 2) continue;
    ticks.push(draw("text", { class: "tick middle", x, y: height - margin.bottom * 0.2 }, clock(time)));
  }
  return ticks;
}

function markLines({ marks, across, height, margin }, start) {
  return (marks ?? []).filter((mark) => mark.time > start).map((mark) => draw("line", { class: `mark ${mark.severity}`, x1: across(mark.time), x2: across(mark.time), y1: margin.top, y2: height - margin.bottom }));
}

function shapes({ series, timeline, across, down }) {
  const areas = series.map(({ field, kind }, index) => index === 0 ? draw("path", { class: `area ${kind}`, d: runs(timeline, field).map((run) => area(run, across, down)).join("") }) : null);
  const lines = series.map(({ field, kind }) => draw("path", { class: `line ${kind}`, d: runs(timeline, field).map((run) => polyline(run, across, down)).join("") }));
  return [...areas.filter(Boolean), ...lines];
}

/** Pieces without a gap: where nothing is known, or nobody looked, no line pretends to know. */
function runs(timeline, field) {
  const pieces = [];
  let last = null;
  timeline.times.forEach((time, index) => {
    const value = timeline[field][index];
    if (!known(value)) { last = null; return; }
    if (last === null || time - last > GAP_MS) pieces.push([]);
    pieces.at(-1).push([time, value]);
    last = time;
  });
  return pieces;
}

const polyline = (run, across, down) => "M" + run.map(([time, value]) => `${across(time).toFixed(1)} ${down(value).toFixed(1)}`).join("L") + (run.length === 1 ? "h1" : "");
const area = (run, across, down) => `${polyline(run, across, down)}L${across(run.at(-1)[0]).toFixed(1)} ${down(0)}L${across(run[0][0]).toFixed(1)} ${down(0)}Z`;

function moveCursor(state, event) {
  const last = (state.timeline?.times.length ?? 0) - 1;
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -30, PageUp: 30, Home: -Infinity, End: Infinity };
  if (last < 0 || !(event.key in steps)) return;
  event.preventDefault();
  setCursor(state, Math.min(Math.max((state.cursor ?? last) + steps[event.key], 0), last));
}

function pointAt(state, event) {
  if (!state.timeline?.times.length || !state.across) return;
  const x = event.clientX - state.frame.getBoundingClientRect().left;
  const distances = state.timeline.times.map((time) => Math.abs(state.across(time) - x));
  setCursor(state, distances.indexOf(Math.min(...distances)));
}

function setCursor(state, index) {
  state.cursor = index;
  const group = state.picture.querySelector(".cursor");
  if (!group) return;
  const time = index === null ? undefined : state.timeline.times[index];
  if (time === undefined) { group.replaceChildren(); show(state.readout, ""); return; }
  const x = state.across(time);
  const points = state.series.filter(({ field }) => known(state.timeline[field][index]))
    .map(({ field, kind }) => draw("circle", { class: kind, cx: x, cy: state.down(state.timeline[field][index]), r: 3 }));
  group.replaceChildren(draw("line", { x1: x, x2: x, y1: state.margin.top, y2: state.height - state.margin.bottom }), ...points);
  show(state.readout, sentence(state, index));
  attribute(state.frame, "aria-valuenow", index);
  attribute(state.frame, "aria-valuetext", sentence(state, index));
}

function sentence({ series, timeline, format }, index) {
  if (index < 0) return "no value yet";
  return `${clock(timeline.times[index])}: ` + series.map(({ name, field }) => `${name} ${format(timeline[field][index])}`).join(", ");
}

function fillTable({ details, values, timeline, series, format }) {
  if (!details.open || !timeline) return;
  const newest = timeline.times.map((time, index) => ({ time, index })).slice(-60).reverse();
  each(values, newest, ({ time }) => time, () => row(["time", ...series.map(({ field }) => field)], { time: "" }), (line, { time, index }) => {
    show(line.cells_.time, clock(time));
    for (const { field } of series) quantity(line.cells_[field], format, timeline[field][index], field.endsWith("_s") && format === seconds ? "s" : "bytes/s");
  });
}
