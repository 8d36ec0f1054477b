"""The charts of the suite's report as SVG, written by hand, readable on light and dark pages: speedups as a heat map, errors
as bars, training curves. Plain values in, text out; report.py calls it."""

import math

STYLE = """<style>
 svg { font-family: sans-serif; font-size: 11px; }
 .page { fill: #ffffff; } text { fill: #24292f; } .faint { fill: #6e7781; } .line { stroke: #d0d7de; }
 @media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; } text { fill: #e6edf3; } .faint { fill: #8b949e; } .line { stroke: #30363d; }
  .on { fill: #0d1117; }
 }
 .on { fill: #0d1117; } .title { font-weight: bold; font-size: 12px; }
</style>"""
# Told apart in both schemes, and by most who do not see all colours.
COLOURS = {"none": "#8c959f", "e4m3": "#d29922", "int8": "#2f81f7", "auto": "#db61a2", "repeat": "#57ab5a", "nudged": "#57ab5a"}


def page(width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([head, STYLE, f'<rect class="page" width="{width}" height="{height}"/>', *parts, "</svg>", ""])


def text(x, y, words, kind="", anchor="start"):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def short(size):
    for unit, value in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= value:
            return f"{size // value} {unit}"
    return f"{size} B"


def shade(ratio):
    """From red below 0.98 over grey at 1 to green at 4."""
    if ratio < 0.98:
        return "#f85149"
    part = min(1.0, max(0.0, math.log2(max(ratio, 1.0)) / 2))
    low, high = (201, 209, 217), (46, 160, 67)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(low, high))


def open_mark(cell):
    """A question mark where the library had not decided; below 1 MiB there is nothing to decide."""
    return "?" if cell["bytes"] >= 1 << 20 and not cell.get("decided", True) else ""


def heat_map(cells):
    """`cells`: dicts with wire, ranks, datatype, bytes, ratio, entry. A panel per datatype."""
    sizes = sorted({cell["bytes"] for cell in cells})
    order = ["loopback", "40gbit", "10gbit", "1gbit"]
    wires = sorted({cell["wire"] for cell in cells}, key=lambda wire: order.index(wire) if wire in order else 9)
    rows = [(wire, count) for wire in wires for count in sorted({cell["ranks"] for cell in cells})]
    wide, high, left, top = 46, 19, 150, 58
    panel, parts = len(sizes) * wide + 20, []
    names = [name for name in ("float32", "bfloat16", "float16") if any(cell["datatype"] == name for cell in cells)]
    parts.append(text(12, 20, "AllReduce: time with NCCL alone over time with the library, which decides by itself", "title"))
    for column, name in enumerate(names):
        start = left + column * panel
        parts.append(text(start, 40, name, "title"))
        parts += [text(start + wide * (place + 0.5), top - 5, short(size), "faint", "middle") for place, size in enumerate(sizes)]
        for row, (wire, count) in enumerate(rows):
            y = top + row * high
            if column == 0:
                shown = "loopback as it is" if wire == "loopback" else wire.replace("gbit", " Gbit/s")
                parts.append(text(left - 8, y + 13, f"{shown}, {count} ranks", "", "end"))
            for place, size in enumerate(sizes):
                found = [
                    cell
                    for cell in cells
                    if (cell["wire"], cell["ranks"], cell["datatype"], cell["bytes"]) == (wire, count, name, size)
                ]
                x = start + place * wide
                if not found:
                    parts.append(text(x + wide / 2, y + 13, "–", "faint", "middle"))
                    continue
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{wide - 2}" height="{high - 2}" rx="2" fill="{shade(found[0]["ratio"])}"/>'
                )
                parts.append(text(x + wide / 2 - 1, y + 13, f"{found[0]['ratio']:.2f}{open_mark(found[0])}", "on", "middle"))
    bottom = top + len(rows) * high
    parts.append(
        text(
            12,
            bottom + 18,
            "Red: below 0.98. –: not measured (a call takes too long, or no time). ?: the library was still trying. Below 1 MiB nothing is compressed.",
            "faint",
        )
    )
    return page(max(720, left + len(names) * panel), bottom + 30, parts)


def bars(rows):
    """`rows`: (name, vNMSE of normal numbers, of lognormal ones). On a logarithmic axis."""
    left, wide, high, top = 210, 430, 34, 52
    values = [value for row in rows for value in row[1:] if value]
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    # What is exact to the last bit would squeeze everything else.
    lowest = max(lowest, -9)

    def place(value):
        return left + wide * (max(lowest, math.log10(value)) - lowest) / max(1, highest - lowest)

    parts = [text(12, 20, "Error of one AllReduce of 64 MiB of fp32 over 4 ranks, against fp64 (vNMSE)", "title")]
    bottom = top + len(rows) * high
    for power in range(lowest, highest + 1):
        x = place(10.0**power)
        parts.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}"/>')
        parts.append(text(x, top - 12, f"1e{power}", "faint", "middle"))
    for number, (name, *found) in enumerate(rows):
        y = top + number * high
        parts.append(text(left - 8, y + 17, name, "", "end"))
        for line, (value, colour) in enumerate(zip(found, ("#2f81f7", "#db61a2"))):
            if value:
                parts.append(
                    f'<rect x="{left}" y="{y + 3 + 12 * line}" width="{max(1.0, place(value) - left):.1f}" height="10" fill="{colour}"/>'
                )
                parts.append(text(place(value) + 5, y + 12 + 12 * line, f"{value:.1e}", "faint"))
    parts.append(
        f'<rect x="{left}" y="{bottom + 10}" width="10" height="10" fill="#2f81f7"/>'
        + text(left + 15, bottom + 19, "normal numbers")
    )
    parts.append(
        f'<rect x="{left + 130}" y="{bottom + 10}" width="10" height="10" fill="#db61a2"/>'
        + text(left + 145, bottom + 19, "lognormal, as gradients are")
    )
    return page(left + wide + 70, bottom + 32, parts)


def smooth(values, over=10):
    return [sum(values[max(0, end - over) : end]) / len(values[max(0, end - over) : end]) for end in range(1, len(values) + 1)]


def scaled(values, low, high, top, height):
    return [top + height * (high - min(high, max(low, value))) / max(1e-12, high - low) for value in values]


def curves(runs):
    """`runs`: dicts with model, format, seed, losses. Above the loss, mean of the seeds; below how far it is from none's."""
    models = sorted({run["model"] for run in runs}, reverse=True)
    formats = [form for form in COLOURS if any(run["format"] == form for run in runs) and form != "repeat"]
    wide, left, parts = 380, 62, [text(12, 20, "Training loss by format of the gradients on the wire, mean over seeds", "title")]
    for column, model in enumerate(models):
        start, mean = left + column * (wide + 70), {}
        for form in formats:
            mine = [run["losses"] for run in runs if (run["model"], run["format"]) == (model, form)]
            seeds = {run["seed"] for run in runs if (run["model"], run["format"]) == (model, form)}
            bare = [run["losses"] for run in runs if run["model"] == model and run["format"] == "none" and run["seed"] in seeds]
            if mine and bare:
                mean[form] = ([sum(step) / len(step) for step in zip(*mine)], [sum(step) / len(step) for step in zip(*bare)])
        if "none" not in mean:
            continue
        parts += panel(start, wide, model, mean)
    for number, form in enumerate(formats):
        x = left + 110 * number
        shown = {"none": "NCCL, fp32", "nudged": "no library, nudged"}.get(form, form)
        parts.append(f'<rect x="{x}" y="352" width="16" height="3" fill="{COLOURS[form]}"/>' + text(x + 21, 357, shown))
    return page(left + len(models) * (wide + 70), 370, parts)


def panel(start, wide, model, mean):
    """One model: losses above, relative differences below."""
    steps = len(mean["none"][0])
    lines = {form: smooth(own) for form, (own, _) in mean.items()}
    apart = {
        form: [100 * (a / b - 1) for a, b in zip(smooth(own), smooth(bare))]
        for form, (own, bare) in mean.items()
        if form != "none"
    }
    low, high = min(map(min, lines.values())), max(map(max, lines.values()))
    most = max([0.1, *(max(map(abs, values[steps // 4 :])) for values in apart.values())])
    parts = [text(start, 42, model, "title")]

    def draw(values, form, low, high, top, height):
        ys = scaled(values, low, high, top, height)
        points = " ".join(f"{start + wide * step / max(1, steps - 1):.1f},{y:.1f}" for step, y in enumerate(ys))
        return f'<polyline points="{points}" fill="none" stroke="{COLOURS[form]}" stroke-width="1.4" stroke-opacity="0.85"/>'

    for value in (low, (low + high) / 2, high):
        y = scaled([value], low, high, 54, 150)[0]
        parts.append(
            f'<line class="line" x1="{start}" x2="{start + wide}" y1="{y:.1f}" y2="{y:.1f}"/>'
            + text(start - 5, y + 4, f"{value:.2f}", "faint", "end")
        )
    for value in (-most, 0, most):
        y = scaled([value], -most, most, 236, 76)[0]
        parts.append(
            f'<line class="line" x1="{start}" x2="{start + wide}" y1="{y:.1f}" y2="{y:.1f}"/>'
            + text(start - 5, y + 4, f"{value:+.2f}%", "faint", "end")
        )
    parts += [draw(values, form, low, high, 54, 150) for form, values in lines.items()]
    parts += [draw(values, form, -most, most, 236, 76) for form, values in apart.items()]
    parts.append(text(start, 228, "relative to NCCL, fp32", "faint"))
    parts.append(text(start + wide, 330, f"{steps} steps", "faint", "end"))
    return parts
