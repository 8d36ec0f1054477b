"""The report of tests/gpu/suite: reads the parts' JSON files, writes a page, all numbers as one JSON file beside it, three charts, and
the summary on docs/results/README.md.

    tests/gpu/report.py FOLDER [--with FILE.json] [--docs docs/results] [--name YYYY-MM-DD-suite-CARD]

FOLDER holds PART.json of the parts (PARTS, below) and parts.json, as far as they were run, in it or in folders of it; what is
missing comes from FILE, the numbers of an earlier report, each part with its own date, or is called not run. Nothing is measured here
and nothing made up. Needs nothing but Python.
"""

import argparse
import glob
import json
import os
import re

import suite_charts
from report_parts import SECTIONS, rows, shortened

RUN = "tests/gpu/with_mps python3 tests/gpu/"
PARTS = {
    "grid": ("no AllReduce slower", RUN + "grid.py"),
    "ddp": ("end to end under DDP", RUN + "end_to_end.py"),
    "tuning": ("compression that switches itself on", RUN + "tuning.py"),
    "compressed": ("the compressed AllReduce on links with a rate", RUN + "compressed.py --parts shaped"),
    "unshaped": ("the compressed AllReduce as fast as loopback is", RUN + "compressed.py --parts unshaped"),
    "errors": ("the errors of the compressed AllReduce", RUN + "compressed.py --parts errors"),
    "kernels": ("every kernel beside a copy", "python3 tests/gpu/kernels.py --floor 80"),
    "convergence": ("models learn the same", RUN + "convergence.py"),
    "training": ("a language model learns the same, and what the host pays", RUN + "training.py"),
    "memory": ("device memory", RUN + "memory.py"),
    "rivals": ("beside what a user would pick instead", RUN + "rivals.py"),
    "pytorch": ("workloads of PyTorch, recipes, serving", RUN + "workloads.py"),
    "nccl-tests": ("nccl-tests", RUN + "nccl_tests.py --dir FOLDER"),
    "conformance": ("real NCCL passed through, and scenarios compressed", "tests/gpu/run"),
    "semantics": ("what applications may do with AllReduce", RUN + "semantics.py"),
    "nodes": ("the same with nodes of two ranks", RUN + "semantics.py --ranks 4 --per-node 2"),
    "long": ("calls of more than 2^31 elements", RUN + "semantics.py --cases beyond_two_to_the_31"),
    "memcheck": ("no stray access", "python3 tests/gpu/kernels.py --under memcheck"),
    "racecheck": ("no hazard in shared memory", "python3 tests/gpu/kernels.py --under racecheck"),
    "contexts": ("a context is told from the next one", "python3 tests/gpu/contexts.py"),
    "exchanges": ("a trial: NCCL's own operations for our bytes", RUN + "exchanges.py"),
}
KNOWN = ("device", "torch", "nccl")
# What people write on a page stays when it is made again.
NOTES, NOTES_END = "<!-- notes: kept when this page is made again -->", "<!-- end of notes -->"
BEGIN, END = "<!-- made by tests/gpu/report.py: begin -->", "<!-- end -->"


def read(folder):
    """name -> JSON; the newest of files with one name, and what a later run of some of its steps added. Of a suite in slices: the
    parts of all."""
    found = {}
    for name in PARTS:
        part, more = newest(folder, name), newest(folder, f"{name}-more")
        if part and more:
            anew = [check["claim"] for check in more["checks"]]
            old = [
                check
                for check in part["checks"]
                if check["claim"] not in anew and not check["claim"].startswith(tuple(more.get("supersedes", [])))
            ]
            kept = {key: value for key, value in more.items() if isinstance(value, dict) and key != "machine"}
            for key, value in kept.items():
                part[key] = {**part.get(key, {}), **value} if key != "times" else value
            part.update(checks=old + more["checks"], seconds=part["seconds"] + more["seconds"])
        if part or more:
            found[name] = part or more
    slices = [one["parts"] for one in by_age(folder, "parts")]
    if slices:
        found["parts"] = {"parts": list({one["name"]: one for parts in slices for one in parts}.values())}
    return found


def newest(folder, name):
    return next(reversed(by_age(folder, name)), None)


def by_age(folder, name):
    """What lies in files of that name, the oldest first."""
    found = []
    places = [os.path.join(folder, f"{name}.json"), os.path.join(folder, "*", f"{name}.json")]
    for file in sorted((file for place in places for file in glob.glob(place)), key=os.path.getmtime):
        with open(file) as opened:
            try:
                found.append(json.load(opened))
            except ValueError as error:
                print(f"left out, cut off while it was written: {file}: {error}")
    return found


def counts(part):
    verdicts = [check["verdict"] for check in part["checks"]]
    shown = ", ".join(f"{verdicts.count(word)} {word}" for word in ("ok", "FAILED", "skipped") if word in verdicts)
    return shown if part.get("finished") else f"{shown}; cut off"


def checks(part):
    lines = [
        (check["verdict"] if check["verdict"] != "FAILED" else "**FAILED**", check["claim"], check["found"])
        for check in part["checks"]
    ]
    return rows(("", "claim", "found"), lines)


def machine(found):
    known = {}
    for part in sorted(found.values(), key=lambda part: part.get("date", "")):
        known.update({key: value for key, value in part.get("machine", {}).items() if key in KNOWN and value not in (None, "none")})
    return known


def version(nccl):
    return f"{nccl // 10000}.{nccl // 100 % 100}.{nccl % 100}" if isinstance(nccl, int) else nccl


def errors_of(found):
    """Ways with their errors: those of rivals, then the library's formats as convergence saw them."""
    raw, formats = found.get("rivals", {}).get("raw", {}), found.get("convergence", {}).get("errors", {})
    lines = [(shown, of["vnmse"], of["vnmse_lognormal"]) for shown, of in raw.items() if "vnmse" in of and "best" not in shown]
    # As rivals measured it is the default, auto.
    lines = [("AIRamp, auto" if shown == "AIRamp" else shown, *values) for shown, *values in lines]
    have = {shown for shown, *_ in lines}
    more = [(f"AIRamp, {form}", of["normal"], of["lognormal"]) for form, of in formats.items() if form != "none"]
    return lines + [line for line in more if line[0] not in have]


def charts(found, folder, name):
    """Those that there is data for."""
    made = {}
    if found.get("grid", {}).get("cells"):
        made["speedup"] = suite_charts.heat_map(found["grid"]["cells"])
    errors = errors_of(found)
    if errors:
        made["errors"] = suite_charts.bars(errors)
    if found.get("convergence", {}).get("runs"):
        made["curves"] = suite_charts.curves(found["convergence"]["runs"])
    for kind, drawn in made.items():
        with open(os.path.join(folder, f"{name}-{kind}.svg"), "w") as file:
            file.write(drawn)
    return made


def rounded(value):
    """Six digits are more than any of the numbers is worth."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(of) for key, of in value.items()}
    return [rounded(of) for of in value] if isinstance(value, list) else value


def without_folders(part):
    """What was called, without the folders of the machine it was called on."""
    words = part.get("command", "").split()
    kept = [word for before, word in zip(["", *words], words) if "--output" not in (before, word)]
    named = {key: os.path.basename(part[key]) for key in ("after",) if part.get(key)}
    return {**part, **named, "command": " ".join(os.path.basename(word) for word in kept)}


def write_numbers(found, folder, name):
    found = {key: without_folders(part) for key, part in found.items()}
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(rounded(found), file, separators=(",", ":"))
        file.write("\n")


def body(found, name):
    text = []
    for key, (title, command) in PARTS.items():
        if key not in found:
            continue
        part = found[key]
        text += [f"## {title[0].upper() + title[1:]}", f"`AIRAMP_BIN=target/release {command}`", ""]
        text += [f"{part['date']}, {part['seconds']:.0f} s: {counts(part)}.", ""]
        if key in SECTIONS:
            text += SECTIONS[key](part, name)
        text += checks(part)
    return text + not_run(found)


def not_run(found):
    left = [title for key, (title, _) in PARTS.items() if key not in found]
    return [f"Not in this report: {'; '.join(left)}.", ""] if left else []


def write_page(found, folder, name, date, card):
    known, cards = machine(found), max(part.get("cards", 1) for part in found.values())
    shared = "all ranks share the card (MPS, an `NCCL_HOSTID` each," if cards == 1 else f"{cards} cards (MPS and an `NCCL_HOSTID` each where ranks outnumber them;"
    head = [
        f"# {date}, {card}: the suite",
        "",
        f"PyTorch {known.get('torch', 'none')}, NCCL {version(known.get('nccl', 'unknown'))}; {shared} loopback sockets, shaped by tbf where a",
        f"rate is given, which all ranks share). Made by `tests/gpu/suite`; [all numbers]({name}.json). Times from such a machine say nothing of a cluster's; ratios hold for a link of that rate.",
        "",
    ]
    page = os.path.join(folder, f"{name}.md")
    head += [NOTES, notes_of(page), NOTES_END, ""]
    others = found.get("parts", {}).get("parts", [])
    if others:
        head += rows(
            ("part", "verdict", "seconds", "last line"),
            [(one["name"], one["verdict"], one["seconds"], one["last"]) for one in others],
        )
    with open(page, "w") as file:
        file.write("\n".join([*head, *body(found, name)]).rstrip() + "\n")


def notes_of(page):
    if not os.path.exists(page):
        return ""
    with open(page) as file:
        text = file.read()
    return text.split(NOTES, 1)[1].split(NOTES_END, 1)[0].strip("\n") if NOTES in text and NOTES_END in text else ""


def summary(found, name, made):
    """For README.md: one line per part, and the charts."""
    lines = []
    for key, (title, command) in PARTS.items():
        if key in found:
            part = found[key]
            link = f"[{title}]({name}.md#{anchor(title)})"
            lines.append((link, part["date"][:10], counts(part), shortened(key, part), f"`{command}`"))
    text = rows(("what", "date", "checks", "found", "repeat"), lines) + not_run(found)
    captions = {"speedup": "Speedup over size and link", "errors": "Error by format", "curves": "Training curves"}
    for kind, caption in captions.items():
        text += [f"![{caption}]({name}-{kind}.svg)" if kind in made else f"{caption}: not run.", ""]
    return "\n".join([BEGIN, "", *text, END])


def anchor(title):
    """As GitHub makes it of a heading."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def update(file, text):
    """Replaces what lies between the marks; False where there are none."""
    with open(file) as opened:
        old = opened.read()
    if BEGIN not in old or END not in old:
        return False
    before, rest = old.split(BEGIN, 1)
    with open(file, "w") as opened:
        opened.write(before + text + rest.split(END, 1)[1])
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--docs", default=os.path.join(here, "..", "..", "docs", "results"))
    parser.add_argument("--with", dest="earlier", metavar="FILE", help="numbers of an earlier report, for parts that were not run")
    parser.add_argument("--name", help="of the page and its charts (default: date and card of the runs)")
    arguments = parser.parse_args()
    found = read(arguments.folder)
    if arguments.earlier:
        with open(arguments.earlier) as file:
            found = {**{key: part for key, part in json.load(file).items() if key in PARTS}, **found}
    if not any(name in found for name in PARTS):
        parser.error(f"no result of a part in {arguments.folder}")
    date = max(part["date"][:10] for name, part in found.items() if name in PARTS)
    card = machine(found).get("device", "unknown card")
    name = arguments.name or f"{date}-suite-{re.sub(r'[^a-z0-9]+', '-', card.lower().replace('nvidia', '')).strip('-')}"
    os.makedirs(arguments.docs, exist_ok=True)
    made = charts(found, arguments.docs, name)
    write_page(found, arguments.docs, name, date, card)
    write_numbers(found, arguments.docs, name)
    readme = os.path.join(arguments.docs, "README.md")
    if os.path.exists(readme):
        update(readme, summary(found, name, made))
    print(f"{os.path.join(arguments.docs, name)}.md, .json, charts: {', '.join(made) or 'none'}")


if __name__ == "__main__":
    main()
