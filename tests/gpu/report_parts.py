"""What report.py says of each part: its tables, and its result in a dozen words. JSON of a part in, lines of Markdown out."""

import suite_charts
from suite_part import mean


def cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")[:400]


def rows(header, lines):
    return [
        f"| {' | '.join(header)} |",
        "|" + "---|" * len(header),
        *[f"| {' | '.join(map(cell, line))} |" for line in lines],
        "",
    ]


def mark_of(one):
    if one.get("forced"):
        return "+"
    if one["entry"] and 0x40 <= one["entry"] < 0x50:
        return "*"
    return "" if one["decided"] or one["bytes"] < 1 << 20 else "?"


def grid(part, name):
    sizes = sorted({one["bytes"] for one in part["cells"]})
    table = {}
    for one in part["cells"]:
        table.setdefault((one["wire"], one["ranks"], one["datatype"]), {})[one["bytes"]] = f"{one['ratio']:.2f}{mark_of(one)}"
    lines = [(wire, count, kind, *[row.get(size, "–") for size in sizes]) for (wire, count, kind), row in table.items()]
    why = {}
    for one in part.get("missed", []):
        reason = "a call takes too long" if "takes" in one["why"] else one["why"].split(":")[0]
        why[reason] = why.get(reason, 0) + 1
    text = rows(("wire", "ranks", "datatype", *map(suite_charts.short, sizes)), lines)
    missed = ", ".join(f"{count} ({reason})" for reason, count in why.items()) or "none"
    return [
        f"![Speedup by size and link]({name}-speedup.svg)",
        "",
        *text,
        "`*`: the library compresses there; `+`: it would have decided after some two dozen calls, each of which takes seconds or minutes, and "
        "compressed from the first one on (`grid_long.py`); `?`: it was still trying.",
        f"Cells not measured: {missed}.",
        "",
    ]


def ddp(part, name):
    lines = []
    for run in part.get("trainings", []):
        first, second = run["step_ms"]["without"], run["step_ms"]["tuned"]
        ends = [mean(run["runs"][how]["losses"][-20:]) for how in ("without", "tuned")]
        values = (
            f"{first:.1f}",
            f"{second:.1f}",
            f"{run['gain']:.2f}x",
            f"{run['gain_with_tuning']:.2f}x",
            run["settled_after_steps"],
        )
        lines.append(
            (run["wire"], run["gradients"], *values, f"{ends[0]:.4f}", f"{ends[1]:.4f}", f"{100 * (ends[1] / ends[0] - 1):+.3f}%")
        )
    header = (
        "wire",
        "gradients",
        "NCCL, ms a step",
        "with, ms",
        "gain",
        "gain, tuning included",
        "decided by step",
        "loss",
        "loss with",
        "apart",
    )
    return rows(header, lines)


def convergence(part, name):
    lines = []
    for line in part.get("summary", []):
        seeds = ", ".join(f"{100 * value:+.3f}%" for value in line["final"])
        lines.append(
            (
                line["model"],
                line["format"],
                line["seeds"],
                f"{100 * mean(line['final']):+.4f}%",
                seeds,
                f"{100 * mean(line['held_out']):+.4f}%",
            )
        )
    header = ("model", "format", "seeds", "final loss against none", "by seed", "held out")
    text = [f"![Training curves]({name}-curves.svg)", "", *rows(header, lines)]
    note = "`repeat` is the same run once more without the library, `nudged` one whose first weights differ by a millionth: what chance alone does."
    return [*text, note, ""]


def rivals(part, name):
    lines = []
    for shown, way in part.get("ways", {}).items():
        one, many = part.get("raw", {}).get(shown, {}), part.get("trained", {}).get(shown, {})

        def put(of, key, form, scale=1.0):
            return form.format(of[key] * scale) if of.get(key) is not None else "–"

        cells = [
            put(one, "ms", "{:.1f}"),
            put(one, "vnmse", "{:.1e}"),
            put(one, "vnmse_lognormal", "{:.1e}"),
            put(many, "step_ms", "{:.1f}"),
        ]
        cells += [put(many, "bytes", "{:.0f}", 1 / 2**20), put(many, "vnmse", "{:.1e}"), put(many, "loss", "{:.4f}")]
        lines.append((shown, *cells, part.get("lines", {}).get(way, "–")))
    header = (
        "",
        "64 MiB, ms",
        "vNMSE, normal",
        "lognormal",
        "DDP step, ms",
        "MiB a step",
        "gradients' vNMSE",
        "loss",
        "lines in the script",
    )
    text = [f"![Error by format]({name}-errors.svg)", "", *rows(header, lines)]
    tried = ", ".join(f"{setting} {value:.1f} ms" for setting, value in part.get("settings", {}).items())
    failed = [shown for shown, of in part.get("trained", {}).items() if "failed" in of]
    text.append(f"Settings of NCCL tried on 64 MiB: {tried}. Bytes are loopback's counter, all ranks together, headers included.")
    if failed:
        text.append(f"Not trained, since the job failed there: {', '.join(failed)}.")
    return [*text, ""]


def compressed_rows(part):
    """(bytes, row without, row with, ratio) of all_reduce_perf."""
    tables = part.get("compressed", {})
    bare = {row["bytes"]: row for row in tables.get("without", [])}
    pairs = [(bare[row["bytes"]], row) for row in tables.get("with", []) if row["bytes"] in bare]
    return [(row["bytes"], other, row, other["us"] / row["us"]) for other, row in pairs if row["us"] and other["us"]]


def nccl_tests(part, name):
    lines = [
        (suite_charts.short(size), f"{bare['us']:.0f}", f"{row['us']:.0f}", bare["busbw"], row["busbw"], f"{ratio:.2f}x")
        for size, bare, row, ratio in compressed_rows(part)
    ]
    text = (
        rows(("all_reduce_perf, float", "NCCL, us", "compressed, us", "NCCL, busbw GB/s", "compressed, busbw", ""), lines)
        if lines
        else []
    )
    lines = []
    for size, of in part.get("times", {}).items():
        # An earlier revision kept times by program.
        if not size.isdigit():
            continue
        us = {way: f"{sorted(values)[len(values) // 2]:.1f} us, {of['ratio'][way]:.3f}" for way, values in of["us"].items()}
        lines.append((suite_charts.short(int(size)), *us.values(), f"{100 * of['spread']:.1f}%"))
    if lines:
        text += rows(
            ("all_reduce_perf, passed through", "without", "observe", "observe, no telemetry", "runs without lie apart"), lines
        )
    return text


def compressed(part, name):
    lines = []
    for job in part.get("jobs", []):
        for row in job["rows"]:
            if row["not_offered"]:
                continue
            error = "not finite" if row["vnmse"] is None else f"{row['vnmse']:.1e}"
            times = f"{row['time_us'] / 1e3:.2f}", f"{row['speedup']:.2f}x"
            lines.append((job["name"], row["datatype"], row["format"], suite_charts.short(row["bytes"]), *times, error))
    header = ("job", "datatype", "way", "bytes", "ms", "of NCCL's own", "vNMSE")
    return [*rows(header, lines), "A job that stands there twice fell short at first; the second, with more iterations, counts.", ""]


def kernels(part, name):
    formats = list(dict.fromkeys(one["format"] for one in part.get("rates", [])))
    table = {}
    for one in part.get("rates", []):
        again = "*" if "all" in one else ""
        row = table.setdefault((one["kernel"], one["type"], suite_charts.short(one["bytes"])), {})
        row[one["format"]] = f"{one['gb_s']:.0f}, {one['percent']:.0f}%{again}"
    lines = [(*key, *[row.get(form, "–") for form in formats]) for key, row in table.items()]
    note = "GB/s, and percent of a copy that moves as many bytes; `*`: the median of three, since the first was below the floor."
    return [*rows(("kernel", "type", "elements", *formats), lines), note, ""] if lines else []


def semantics(part, name):
    lines = [
        (one["ranks"], one["case"], one["verdict"], one.get("calls", "–"), one.get("note", ""), "; ".join(one.get("why", [])))
        for one in part.get("cases", [])
    ]
    return rows(("ranks", "case", "", "calls compressed", "", "why"), lines)


def memory(part, name):
    lines = [
        (one["ranks"], *[f"{one[key] / 1e6:.1f}" for key in ("added", "messages", "rest", "beside_messages")])
        for one in part.get("added", [])
    ]
    header = ("ranks", "added, MB a rank", "of it NCCL's Send and Recv", "the rest", "added beside an application's own Send and Recv")
    lean = [(one["ranks"], f"{one['added'] / 1e6:.1f}", one["stack"]) for one in part.get("lean", [])]
    text = rows(header, lines)
    return text + (rows(("ranks", "added with AIRAMP_LEAN_MESSAGES, MB a rank", "stack limit"), lean) if lean else [])


def training(part, name):
    lines = []
    for one in part.get("losses", []):
        for seed, (bare, with_it) in enumerate(zip(one["without"], one["compressed"])):
            lines.append((one["gradients"], seed, f"{bare:.4f}", f"{with_it:.4f}", f"{with_it - bare:+.4f}", f"{one['spread']:.4f}"))
    text = rows(("gradients", "seed", "loss", "loss compressed", "apart", "seeds lie apart"), lines)
    added = ", ".join(f"{how} {percent:+.2f}%" for how, percent in part.get("added_percent", {}).items())
    return [*text, *([f"Host, inside AllReduce calls, of a core: {added}.", ""] if added else [])]


def exchanges(part, name):
    lines, costs = [], []
    for one in part.get("trials", []):
        vendor = one["seconds"].get("vendor")
        for way, seconds in one["seconds"].items():
            gain = f"{vendor / seconds:.2f}x" if vendor else "–"
            lines.append((one["ranks"], one["chunk"] >> 20, way, f"{seconds * 1e3:.1f}", gain))
        lines += [(one["ranks"], one["chunk"] >> 20, way, "failed", "–") for way in one["failed"]]
        costs += [
            (one["ranks"], one["chunk"] >> 20, what, f"{cost['bytes'] / 1e6:.1f}", cost.get("stack") or "–", f"{cost['seconds'] * 1e3:.0f}")
            for what, cost in one["costs"].items()
        ]
    text = rows(("ranks", "MiB in a chunk", "arrangement", "ms", "of NCCL's AllReduce"), lines)
    return text + rows(("ranks", "MiB in a chunk", "first", "MB a rank", "stack limit", "ms"), costs)


SECTIONS = {
    "grid": grid,
    "ddp": ddp,
    "compressed": compressed,
    "unshaped": compressed,
    "errors": compressed,
    "kernels": kernels,
    "convergence": convergence,
    "training": training,
    "memory": memory,
    "rivals": rivals,
    "nccl-tests": nccl_tests,
    "semantics": semantics,
    "nodes": semantics,
    "long": semantics,
    "exchanges": exchanges,
}


def of_jobs(part):
    """The least speedup of the last run of each job, by type, and the largest error of our formats."""
    rows = {}
    for job in part.get("jobs", []):
        for row in job["rows"]:
            if row["is_ours"] and not row["not_offered"]:
                rows[job["name"], row["datatype"], row["format"]] = (job["kind"], row)
    speedups, errors = {}, {}
    for (_, datatype, form), (kind, row) in rows.items():
        if kind == "errors":
            errors.setdefault(form, []).append(row["vnmse"] or float("nan"))
        else:
            speedups.setdefault(datatype, []).append(row["speedup"])
    told = [f"{datatype} {min(of):.2f} to {max(of):.2f}x" for datatype, of in speedups.items()]
    return ", ".join(told + [f"vNMSE of {form} at most {max(of):.1e}" for form, of in errors.items()])


def shortened(key, part):
    """A part's result in a dozen words, from its numbers."""
    if part is None:
        return ""
    if key in ("compressed", "unshaped", "errors"):
        return of_jobs(part)
    if key == "kernels" and part.get("rates"):
        least = min(part["rates"], key=lambda one: one["percent"])
        return f"{len(part['rates'])} rates, the least {least['percent']:.0f}% of a copy's ({least['kernel']} {least['type']} {least['format']})"
    if key == "memory":
        return ", ".join(f"{one['rest'] / 1e6:.1f} MB with {one['ranks']} ranks" for one in part.get("added", []))
    if key == "training":
        means = {one["gradients"]: mean(one["compressed"]) - mean(one["without"]) for one in part.get("losses", [])}
        return ", ".join(f"{kind} gradients {apart:+.4f}" for kind, apart in means.items())
    if key in ("semantics", "nodes", "long"):
        return f"{sum(one['verdict'] == 'ok' for one in part.get('cases', []))} of {len(part.get('cases', []))} cases"
    if key in ("tuning", "conformance", "memcheck", "racecheck", "contexts", "exchanges"):
        return "; ".join(check["found"] for check in part["checks"])[:300]
    if key == "ddp":
        runs = [
            f"{run['gain']:.2f}x {run['wire']} {run['gradients']} ({run['gain_with_tuning']:.2f}x)" for run in part.get("trainings", [])
        ]
        return ", ".join(runs) + (" once decided (over all steps, trials included)" if runs else "")
    if key == "grid" and part.get("cells"):
        ratios = [one["ratio"] for one in part["cells"]]
        return f"{len(ratios)} cells, {sum(ratio < 0.98 for ratio in ratios)} below 0.98, {min(ratios):.2f} to {max(ratios):.2f}"
    if key == "convergence":
        return ", ".join(
            f"{line['model']} {line['format']} {100 * mean(line['final']):+.3f}%"
            for line in part.get("summary", [])
            if line["format"] in ("e4m3", "int8", "auto")
        )
    if key == "rivals":
        steps = {shown: of["step_ms"] for shown, of in part.get("trained", {}).items() if "step_ms" in of}
        return "a step of DDP, ms: " + ", ".join(
            f"{shown} {value:.0f}" for shown, value in sorted(steps.items(), key=lambda item: item[1])
        )
    if key == "pytorch":
        apart = [abs(apart_of(of)) for of in part.get("cases", {}).values() if "losses" in of["without"][0]]
        return (
            f"{len(part.get('cases', {}))} kinds of program; compressed losses at most {100 * max(apart):.3f}% off"
            if apart
            else ""
        )
    if key == "nccl-tests":
        swept = [of for kinds in part.get("passthrough", {}).values() for of in kinds.values()]
        ratios = [ratio for _, _, _, ratio in compressed_rows(part)]
        programs = sum(any(of["checked"] for of in kinds.values()) for kinds in part.get("passthrough", {}).values())
        wrong, checked = sum(of["wrong"] for of in swept), sum(of["checked"] for of in swept)
        gain = f"; compressed {min(ratios):.2f} to {max(ratios):.2f}x" if ratios else ""
        return f"{wrong} wrong in {checked} checked rows of {programs} programs{gain}"
    return ""


def apart_of(case):
    ends = [mean(case[how][0]["losses"][-4:]) for how in ("without", "compressed")]
    return ends[1] / ends[0] - 1
