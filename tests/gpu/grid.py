"""Is any AllReduce slower with the library? Sizes, datatypes, numbers of ranks and links, as a user has them.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/grid.py [--ranks 2,4,8] [--wires loopback,40gbit,10gbit,1gbit]
                 [--sizes 1KiB,16KiB,…] [--seconds 900] [--after grid.json] [--longest 1.2]

AIRAMP_ENABLE_FP8_ALLREDUCE=1 and nothing else, beside a job without the library, in turns. Each wire
has communicators of its own, made before it is shaped; calls go on until the library has decided for that class (bounded), and
what it then does is timed. A cell is the median of the turns without over the median with. Cells under 0.98 are
measured again, up to four times, and all turns counted. Asked for: no cell under 0.98. Cells whose calls take too long are
listed, and left to grid_long.py. --after goes on where an earlier run ended: it measures what that one has not, what the library had not
decided, and cells under 0.98, by new processes, since two of them differ by themselves: such a cell is the mean of its runs.
Exit status: 0, 1, 77 no GPU.
"""

import contextlib
import json
import math
import sys

import loopback
import ranks
import suite_part
from suite_part import median

SIZES = "16MiB,2MiB,1KiB,32KiB,256KiB,64MiB,1GiB"
DATATYPES = ("float32", "bfloat16", "float16")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LEAST, ELIGIBLE = 0.98, 1 << 20
# Seconds: the longest call without the library that is measured, how long a turn of short ones is, and deciding may take at least.
LONGEST, TURN, DECIDING = 1.2, 0.06, 8.0
# So many calls in a row are done in the way that was decided: a rhythm that is learnt may have another one tried.
STEADY = 16
# Short calls vary more from turn to turn, and cost little.
TURNS, TURNS_OF_SHORT, SHORT, AGAIN = 3, 5, 0.002, 4
NAME = "all"
BITS = {"loopback": None, "40gbit": 40e9, "10gbit": 10e9, "1gbit": 1e9}


def bytes_of(text):
    unit = next((unit for unit in UNITS if text.endswith(unit)), None)
    return int(text[: -len(unit)]) * UNITS[unit] if unit else int(text)


class Pair:
    """A job without the library and one with it, of so many ranks."""

    def __init__(self, count):
        self.count = count
        self.start()

    def start(self):
        self.jobs = {how: ranks.Ranks(__file__, self.count, how, limit=60, common=ranks.WIRE) for how in ("without", "tuned")}
        self.made = {how: set() for how in self.jobs}

    def close(self):
        for job in self.jobs.values():
            job.close()

    def make(self, how, name):
        job = self.jobs[how]
        if name not in self.made[how]:
            unique = job.ask({"do": "id"}, only=0)[0]["id"]
            answers = job.ask({"do": "make", "name": name, "id": unique})
            self.made[how].add(name)
            return answers[0]["compresses"]

    def drop(self, how, name):
        self.made[how].discard(name)
        self.jobs[how].ask({"do": "drop", "name": name})

    def ask(self, how, name, size, datatype, calls, turns=1):
        """The seconds of a call of the rank that waited least, and the library's entry."""
        request = {"do": "time", "name": name, "size": size, "datatype": datatype, "calls": calls, "turns": turns}
        answers = self.jobs[how].ask(request)
        return min(answer["seconds"] for answer in answers), answers[0]["entry"]


def decided(entry):
    return entry is None or entry == 1 or 0x40 <= entry < 0x50


def key(cell):
    return cell["wire"], cell["ranks"], cell["bytes"], cell["datatype"]


def settled(cell):
    """Whether a later run need not measure it again."""
    return cell["ratio"] >= LEAST and (cell["decided"] or cell["bytes"] < ELIGIBLE)


def earlier(arguments):
    """What the run that this one goes on with has measured and what it has missed: its grid.json, or that of a report."""
    if not arguments.after:
        return {}, {}
    try:
        with open(arguments.after) as file:
            found = json.load(file)
        found = found.get("grid", found)
        return by_key(found["cells"]), by_key(found["missed"])
    except (OSError, ValueError, KeyError, AttributeError) as error:
        sys.exit(f"grid.py: --after {arguments.after} is no result of this program or of report.py: {error!r}")


def by_key(cells):
    return {key(cell): cell for cell in cells}


def beside(before, cell):
    """A cell that was under 0.98, measured again by other processes: the geometric mean of all of them."""
    if before is None or before["ratio"] >= LEAST:
        return cell
    runs = [*before.get("runs", [before["ratio"]]), cell["ratio"]]
    return dict(cell, runs=runs, ratio=math.exp(suite_part.mean([math.log(ratio) for ratio in runs])))


def measure(part, pair, size, datatype, once):
    """One cell: what the library decided, and the turns of both jobs. `once`: seconds of a call without the library."""
    name, spent, entry, calls = NAME, part.left(), None, max(1, min(1000, int(TURN / once)))
    if size >= ELIGIBLE:
        # Short batches: a call index that is agreed on lies some calls ahead.
        batch, same, before = max(1, min(16, int(0.1 / once))), 0, None
        while same < STEADY and spent - part.left() < max(DECIDING, 40 * once):
            seconds, entry = pair.ask("tuned", name, size, datatype, batch)
            same, before = (same + batch if entry == before and decided(entry) else 0), entry
    else:
        pair.ask("tuned", name, size, datatype, calls)
    turns = {"without": [], "tuned": []}
    for again in range(AGAIN + 1):
        for _ in range(TURNS_OF_SHORT if once < SHORT else TURNS if once < 0.2 else 2):
            seconds, _ = pair.ask("without", name, size, datatype, calls)
            turns["without"].append(seconds)
            seconds, entry = pair.ask("tuned", name, size, datatype, calls)
            turns["tuned"].append(seconds)
        ratio = median(turns["without"]) / median(turns["tuned"])
        if ratio >= LEAST or part.left() < 10 * once:
            break
    return {"ratio": ratio, "turns": turns, "entry": entry, "again": again, "decided": decided(entry)}


def estimate(bits, count, size):
    """Seconds of NCCL's ring on a wire that all ranks share."""
    return 2 * (count - 1) * size * 8 / bits if bits else size / 1.5e9


def cells_of(wire, arguments):
    """In the order of what they tell: sizes that gradients have, then small ones, then the dear; float16 is like bfloat16. What an
    earlier run has left over: the cheapest first."""

    def weight(cell):
        _, size, datatype = cell
        if arguments.after:
            return size
        if datatype == "float16":
            return 6 if size < ELIGIBLE else 5
        if size < ELIGIBLE:
            return 1 if datatype == "float32" else 3
        return 0 if size < 64 << 20 else 2 if size < 1 << 30 else 4

    counts, sizes = list(map(int, arguments.ranks.split(","))), list(map(bytes_of, arguments.sizes.split(",")))
    return sorted([(count, size, datatype) for size in sizes for datatype in DATATYPES for count in counts], key=weight)


def measure_wire(part, wire, pairs, cells, share, arguments):
    """All cells of a wire, within its share of the time."""
    end, missed = part.left() - share, []
    for count, size, datatype in arguments.cells_of_wire:
        cell = {"wire": wire, "ranks": count, "bytes": size, "datatype": datatype}
        before = arguments.earlier.get(key(cell))
        if before and settled(before):
            continue
        guess, pair = estimate(BITS.get(wire), count, size), pairs[count]
        if guess > arguments.longest:
            missed.append(dict(cell, why=f"a call takes about {guess:.0f} s"))
            continue
        if part.left() - end < 14 * guess + 0.5 or part.left() < 5:
            missed.append(dict(cell, why="no time"))
            continue
        try:
            pair.make("without", NAME)
            pair.make("tuned", NAME)
            once = pair.ask("without", NAME, size, datatype, 1, turns=2)[0]
            if once > 1.5 * arguments.longest:
                missed.append(dict(cell, why=f"a call takes {once:.1f} s"))
                continue
            cell.update(measure(part, pair, size, datatype, once))
            cells[:] = [other for other in cells if key(other) != key(cell)] + [beside(before, cell)]
        except ranks.Ended as ended:
            missed.append(dict(cell, why="failed: " + str(ended)[:600]))
            part.say(str(ended))
            pair.close()
            pair.start()
        part.put(cells=cells, missed=part.data.get("missed", []))
    for pair in pairs.values():
        for name in list(pair.made["tuned"]):
            with contextlib.suppress(ranks.Ended):
                pair.drop("tuned", name)
    return missed


def prepare(part, wire, pairs, arguments):
    """The communicators of a wire, made while loopback is as fast as it is: connecting many ranks through a shaped one
    fails now and then, in NCCL alone as well."""
    for count, pair in pairs.items():
        try:
            pair.make("without", NAME)
            on = pair.make("tuned", NAME)
            part.say(f"{wire}, {count} ranks: {'may compress' if on else 'NEVER COMPRESSES'}")
        except ranks.Ended as ended:
            part.say(f"{wire}, {count} ranks: {ended}")
            pair.close()
            pair.start()


def table(cells):
    """Ratios by wire, ranks and datatype; `*` where the library compresses."""
    sizes = sorted({cell["bytes"] for cell in cells})
    shown = {cell: next(f"{cell // unit}{name}" for name, unit in reversed(UNITS.items()) if cell >= unit) for cell in sizes}
    print("\n" + f"{'':32}" + "".join(f"{shown[size]:>9}" for size in sizes))
    rows = {}
    for cell in cells:
        mark = "*" if cell["entry"] and 0x40 <= cell["entry"] < 0x50 else " "
        rows.setdefault((cell["wire"], cell["ranks"], cell["datatype"]), {})[cell["bytes"]] = f"{cell['ratio']:.2f}{mark}"
    for (wire, count, datatype), row in rows.items():
        print(f"{wire:12}{count:>3} ranks  {datatype:12}" + "".join(f"{row.get(size, '-'):>9}" for size in sizes))


def conduct(arguments):
    # Read before the part writes its own file, which may be the same one.
    arguments.earlier, missed = earlier(arguments)
    cells = list(arguments.earlier.values())
    part = suite_part.Part("grid", arguments)
    part.put(cells=cells, missed=list(missed.values()), after=arguments.after)
    pairs = {count: Pair(count) for count in map(int, arguments.ranks.split(","))}
    try:
        for pair in pairs.values():
            for job in pair.jobs.values():
                part.put(machine=job.ask({"do": "hello"})[0])
        part.say(f"up: {part.data['machine']}")
        wires = arguments.wires.split(",")
        for number, wire in enumerate(wires):
            arguments.cells_of_wire = cells_of(wire, arguments)
            share = part.left() / (len(wires) - number) - (6 if number == 0 else 4)
            prepare(part, wire, pairs, arguments)
            try:
                with contextlib.nullcontext() if wire == "loopback" else loopback.Shaped(wire):
                    missed.update(by_key(measure_wire(part, wire, pairs, cells, share, arguments)))
            except loopback.NotShaped as why:
                part.check(f"{wire}: measured", None, str(why))
            part.put(cells=cells, missed=list(missed.values()))
            part.say(f"{wire}: {sum(cell['wire'] == wire for cell in cells)} cells")
    except ranks.Ended as ended:
        part.check("the jobs are up", False, str(ended))
    finally:
        for pair in pairs.values():
            pair.close()
    return judge(part, cells, missed)


def place(cell):
    """By links, the fastest first, and those of other rates behind them; then by type, ranks and size."""
    wires = [*BITS, cell["wire"]]
    return wires.index(cell["wire"]), cell["wire"], DATATYPES.index(cell["datatype"]), cell["ranks"], cell["bytes"]


def judge(part, cells, missed):
    cells.sort(key=place)
    known = by_key(cells)
    missed = [cell for where, cell in missed.items() if where not in known]
    part.put(cells=cells, missed=missed)
    table(cells)
    if missed:
        reasons = {}
        for cell in missed:
            reasons.setdefault("a call takes too long" if "takes" in cell["why"] else cell["why"].split(":")[0], []).append(cell)
        part.say("not measured: " + ", ".join(f"{len(of)} cells ({why})" for why, of in reasons.items()))
    below = [cell for cell in cells if cell["ratio"] < LEAST]
    worst = sorted(cells, key=lambda cell: cell["ratio"])[:5]
    for cell in worst:
        part.say(
            f"lowest: {cell['wire']}, {cell['ranks']} ranks, {cell['datatype']}, {cell['bytes']} bytes: {cell['ratio']:.3f} (entry {cell['entry']})"
        )
    if cells:
        share = sum(1 for cell in cells if cell["entry"] and 0x40 <= cell["entry"] < 0x50)
        found = (
            f"{len(below)} of {len(cells)} cells, lowest {worst[0]['ratio']:.3f}, {share} compressed, {len(missed)} not measured"
        )
        part.check(f"no cell under {LEAST}", not below, found)
        best = max(cells, key=lambda cell: cell["ratio"])
        part.say(
            f"highest: {best['wire']}, {best['ranks']} ranks, {best['datatype']}, {best['bytes']} bytes: {best['ratio']:.2f}"
        )
    else:
        part.check("cells were measured", False, "none")
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 900)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--wires", default="loopback,40gbit,10gbit,1gbit", help="loopback, or rates as tc takes them")
    parser.add_argument("--sizes", default=SIZES, help="bytes, in the order in which they are measured")
    parser.add_argument("--after", metavar="FILE", help="grid.json of an earlier run to go on with, or a report's JSON")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of a call without the library, at most")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from grid_rank import Rank

        ranks.serve(Rank())
        return
    ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
