// Numbers and times as a reader wants them. Amounts are bytes in powers of 1024, rates are bits per second in
// powers of 1000 as links are sold, times are seconds. What is not known is a dash, never a zero.

const UNKNOWN = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

/** Three significant digits, without an exponent. */
function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return grouped.format(Math.round(value));
  return value.toFixed(size >= 10 ? 1 : 2);
}

function scaled(value, base, units) {
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= base * 0.9995 && step < units.length - 1) {
    rest /= base;
    step += 1;
  }
  return { rest, unit: units[step] };
}

function bytes(value) {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) < 1024) return `${Math.round(value)} B`;
  const { rest, unit } = scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
  return `${rest >= 1000 ? grouped.format(Math.round(rest)) : Number.isInteger(rest) ? rest : digits(rest)} ${unit}`;
}

const RATE_UNITS = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/** From bytes per second. */
function rate(value) {
  if (!known(value)) return UNKNOWN;
  const { rest, unit } = scaled(value * 8, 1000, RATE_UNITS);
  return `${digits(rest)} ${unit}`;
}

function seconds(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 999.5e-9) return `${digits(value * 1e9)} ns`;
  if (size < 999.5e-6) return `${digits(value * 1e6)} µs`;
  if (size < 0.9995) return `${digits(value * 1e3)} ms`;
  if (size < 120) return `${digits(value)} s`;
  return span(value);
}

/** Two units of a long time: 3 d 4 h, 5 h 12 min, 12 min 30 s. */
function span(value) {
  if (!known(value)) return UNKNOWN;
  const whole = Math.round(value);
  const [day, hour, minute] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (day > 0) return `${day} d ${hour} h`;
  if (hour > 0) return `${hour} h ${minute} min`;
  if (minute > 0) return `${minute} min ${whole % 60} s`;
  return `${whole} s`;
}

function count(value) {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) < 10000) return grouped.format(value < 100 ? value : Math.round(value));
  const { rest, unit } = scaled(value, 1000, ["", "k", "M", "G", "T"]);
  return `${digits(rest)} ${unit}`;
}

const factor = (value) => (known(value) ? `${value.toFixed(2)}×` : UNKNOWN);
const share = (value) => (known(value) ? `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%` : UNKNOWN);
const error = (value) => (known(value) ? (value === 0 ? "0" : value.toExponential(1)) : UNKNOWN);
const plain = (value) => (known(value) ? grouped.format(value) : UNKNOWN);

function clock(unixMs) {
  if (!known(unixMs)) return UNKNOWN;
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

function moment(unixMs) {
  if (!known(unixMs)) return UNKNOWN;
  const date = new Date(unixMs);
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock(unixMs) : `${date.toLocaleDateString("sv-SE")} ${clock(unixMs)}`;
}

function asSentence(text) {
  const trimmed = String(text ?? "").trim();
  return trimmed && `${trimmed[0].toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? "" : "."}`;
}

/** "late_rank" as words. */
const words = (name) => String(name ?? "").replaceAll(/[_-]/g, " ");

function sizeRange(from, below) {
  if (!known(below)) return `${bytes(from)} and more`;
  return from === 0 ? `below ${bytes(below)}` : `${bytes(from)} to ${bytes(below)}`;
}

/** "0 to 3, 7" */
function rankList(ranks) {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const runs = [];
  for (const rank of sorted) {
    const run = runs.at(-1);
    if (run && rank === run[1] + 1) run[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from} to ${to}`)).join(", ");
}
