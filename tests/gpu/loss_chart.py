"""Loss curves as an SVG, written by hand: one panel per kind of gradient, a line per run."""

WIDTH, HEIGHT, MARGIN = 460, 300, 46
COLOURS = {"without": "#7a7f87", "compressed": "#c2410c"}


def running_mean(values, over=10):
    parts = [values[max(0, end - over) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in parts]


def panel(title, runs, left):
    """`runs`: (how, seed, losses). The axes fit all of them."""
    curves = [(how, running_mean(losses)) for how, _, losses in runs]
    top = max(max(curve) for _, curve in curves)
    bottom = min(min(curve) for _, curve in curves)
    steps = max(len(curve) for _, curve in curves)
    inner_width, inner_height = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(step, loss):
        x = left + MARGIN + inner_width * step / max(1, steps - 1)
        y = MARGIN + inner_height * (top - loss) / max(1e-9, top - bottom)
        return f"{x:.1f},{y:.1f}"

    lines = [f'<text x="{left + MARGIN}" y="{MARGIN - 16}" font-weight="bold">{title}</text>']
    for part in range(5):
        loss = bottom + (top - bottom) * part / 4
        x, y = place(0, loss).split(",")
        lines.append(f'<line x1="{x}" x2="{left + WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#e3e5e8"/>')
        lines.append(f'<text x="{left + MARGIN - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
    for how, curve in curves:
        points = " ".join(place(step, loss) for step, loss in enumerate(curve))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[how]}" stroke-opacity="0.75"/>')
    end = f'x="{left + WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 18}"'
    lines.append(f'<text {end} text-anchor="end">{steps} steps</text>')
    return lines


def chart(panels):
    """`panels`: title -> runs."""
    total = WIDTH * len(panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT}" width="{total}" height="{HEIGHT}"',
        ' font-family="sans-serif" font-size="11" fill="#2b2f36">',
        f'<rect width="{total}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for number, (title, runs) in enumerate(panels.items()):
        lines += panel(title, runs, number * WIDTH)
    for number, (how, colour) in enumerate(COLOURS.items()):
        x = MARGIN + 150 * number
        lines.append(f'<rect x="{x}" y="{HEIGHT - 18}" width="18" height="3" fill="{colour}"/>')
        label = "compressed AllReduce" if how == "compressed" else "NCCL alone"
        lines.append(f'<text x="{x + 24}" y="{HEIGHT - 13}">{label}</text>')
    return "\n".join([*lines, "</svg>", ""])
