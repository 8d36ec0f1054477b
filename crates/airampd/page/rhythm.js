// The rhythm of a job: the step that its calls repeat, what broke it, and when its pace changed.

const PATTERNS = { locked: "Locked", learning: "Learning", drifting: "▲ Drifting", off: "Off" };
const DEVIATIONS = ["late", "missing", "extra", "resized"];
const patternName = (state) => PATTERNS[state] ?? words(state ?? "off");

function makeRhythm() {
  const summary = make("p", { class: "caption" });
  const { box, body } = table("Rhythm of the ranks", [["Rank", "number"], ["Pattern", ""], ["Step", "number"], ["Step time", "number"], ["Calls in a step", "number"],
    ["Late", "number", "calls that came later than the rank's own rhythm foresaw"], ["Missing", "number"], ["Extra", "number"], ["Resized", "number"],
    ["Ghost kernels", "number"], ["Kernel after a gap", "number", "with ghost kernels in the gap, and without"]]);
  const names = ["rank", "pattern", "step", "step_s", "step_calls", ...DEVIATIONS, "ghosts", "ghost_gain"];
  const changes = make("ol", { class: "paces" });
  return {
    element: card("Rhythm", "full", summary, box, changes),
    update(job) {
      const ranks = job.ranks ?? [];
      const beats = ranks.filter((rank) => rank.rhythm && rank.rhythm.state !== "off");
      show(summary, rhythmText(job));
      visible(box, beats.length > 0);
      each(body, beats, rankKey, () => row(names, { pattern: "" }), showRhythmRow);
      each(changes, [...(job.pace_changes ?? [])].reverse(), (it) => `${it.communicator} ${it.step} ${it.time_unix_ms}`, () => make("li", {}, make("span"), make("span", { class: "quiet" })), showPace);
    },
  };
}

function rhythmText(job) {
  const { state, step, step_s: time } = job.rhythm ?? {};
  if (!state || state === "off") return "No rhythm is followed: it is switched off (AIRAMP_PATTERN), or no rank has told of one.";
  if (state === "learning") return "The step that the calls repeat is not known yet.";
  const length = known(time) ? ` A step takes ${seconds(time)}${known(step) ? `; the slowest rank is in step ${plain(step)}` : ""}.` : "";
  return state === "drifting" ? `The calls do not follow the step that was learnt, as in an evaluation or at a checkpoint.${length}` : `The calls repeat.${length}`;
}

function showRhythmRow(line, rank) {
  const cells = line.cells_;
  show(cells.rank, rankName(rank));
  show(cells.pattern, patternName(rank.rhythm.state));
  quantity(cells.step, plain, rank.rhythm.step);
  quantity(cells.step_s, seconds, rank.rhythm.step_s, "s");
  quantity(cells.step_calls, plain, rank.rhythm.step_calls, "calls");
  for (const kind of DEVIATIONS) {
    const found = (rank.totals?.deviations ?? []).find((it) => it.kind === kind);
    quantity(cells[kind], plain, found?.calls ?? 0, "calls");
  }
  quantity(cells.ghosts, count, rank.totals?.ghosts ?? 0);
  const gain = rank.ghosts;
  quantity(cells.ghost_gain, () => (gain ? `${seconds(gain.with_s)}, without ${seconds(gain.without_s)}` : UNKNOWN), gain?.with_s, "s");
}

function showPace(item, change) {
  const [what, about] = item.children;
  const slower = change.after_s > change.before_s;
  const more = change.before_s > 0 ? ` (${slower ? "+" : "−"}${share(Math.abs(change.after_s / change.before_s - 1))})` : "";
  attribute(item, "class", slower ? "slower" : "faster");
  show(what, `${slower ? "▲ Slower" : "Faster"} since step ${plain(change.step)}: ${seconds(change.before_s)} became ${seconds(change.after_s)}${more}.`);
  show(about, ` ${paceOf(change)}, communicator ${shortName(change.communicator)}, ${moment(change.time_unix_ms)}`);
}

/** "compute grew on rank 3, communication on rank 0 to 2" */
function paceOf(change) {
  const verb = change.after_s > change.before_s ? "grew" : "shrank";
  const parts = [["compute", "compute"], ["communication", "communication"], ["both", "compute and communication"]]
    .map(([grew, name]) => [name, (change.ranks ?? []).filter((it) => it.grew === grew && known(it.rank)).map((it) => it.rank)])
    .filter(([, ranks]) => ranks.length > 0)
    .map(([name, ranks]) => `${name} ${verb} on rank ${rankList(ranks)}`);
  return parts.length > 0 ? parts.join(", ") : `what ${verb} is not known`;
}
