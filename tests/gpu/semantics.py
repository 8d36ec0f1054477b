"""What an application may do with AllReduce, through the library with compression on, on real NCCL from PyTorch.

    AIRAMP_BIN=… python3 tests/gpu/semantics.py [--ranks 2,4] [--per-node 1] [--cases NAME,…]

Every result is compared bit for bit with wire_format.py, which shares nothing with the library, and between all
ranks; and every case must have been compressed. One line per case: ok, or FAILED and why.
Exit status: 0 all ok, 1 not, 77 no GPU.
--per-node 2 makes them take two ranks each for a node, though every one says that it is a host of its own: three exchanges.
With 2 ranks PyTorch makes the communicator at the first call, with more at once (device_id), and splits groups off it.
"""

import sys
import time

import ranks
import suite_part

# Fewer than 1024 bytes are passed on, so that both kinds of calls meet.
SETTINGS = {"AIRAMP_MIN_BYTES": "1024"}


def all_cases(prefix=("case_", "long_")):
    """By name, from the functions of the modules. Long ones take gigabytes, and run if they are named."""
    import cases_calls
    import cases_graphs
    import cases_long
    import cases_raw

    modules = (cases_calls, cases_raw, cases_graphs, cases_long)
    functions = [item for module in modules for item in vars(module).items()]
    return {name.split("_", 1)[1]: case for name, case in functions if name.startswith(prefix)}


class Rank:
    """One rank: a case per request."""

    def __init__(self):
        import reference

        self.cases, self.new_findings = all_cases(), reference.Findings
        self.made, self.on = reference.start()
        self.end = reference.end

    def answer(self, request):
        case = request["case"]
        if case == "start":
            return {"why": [] if self.on else ["compression is off"], "digest": "", "note": self.made}
        found = self.new_findings()
        note = self.cases[case](found)
        return {"why": found.wrong[:3], "digest": found.digest(), "calls": found.calls, "note": note or ""}


def verdict(answers):
    """The reasons why a case failed; none if it is right on all ranks."""
    why = [f"rank {rank}: {reason}" for rank, answer in enumerate(answers) for reason in answer["why"]]
    if len({answer["digest"] for answer in answers if answer["digest"] is not None}) > 1:
        why.append("the ranks ended with different bits")
    return why


def run(part, job, case, count):
    """One case; its line is printed, and kept."""
    begin = time.monotonic()
    answers = job.ask({"case": case})
    why = verdict(answers)
    note = answers[0]["note"]
    calls = f"{answers[0]['calls']} compressed" if "calls" in answers[0] else ""
    word, took = "FAILED" if why else "ok", time.monotonic() - begin
    line = dict(ranks=count, case=case, verdict=word, calls=answers[0].get("calls"), seconds=round(took, 1), note=note, why=why[:6])
    part.put(cases=[*part.data["cases"], line])
    print(f"{count} ranks  {case:26}{word:8}{calls:16}{took:5.1f} s  {note}".rstrip(), flush=True)
    for reason in why[:6]:
        print(f"    {reason}", flush=True)


def run_all(part, count, per_node, cases):
    """The cases with so many ranks. After a case that ended the ranks the rest goes on with fresh ones."""
    left, restarts, settings = list(cases), 0, dict(SETTINGS, AIRAMP_RANKS_PER_NODE=str(per_node))
    while left and restarts < 4 and part.left() > 5:
        with ranks.Ranks(__file__, count, "compressed", settings, limit=45) as job:
            case = "start"
            try:
                run(part, job, case, count)
                if part.data["cases"][-1]["why"]:
                    print("".join(f"    {line}\n" for line in job.complaints()), end="")
                while left and part.left() > 5:
                    case = left.pop(0)
                    run(part, job, case, count)
            except ranks.Ended as ended:
                restarts += 1
                part.put(cases=[*part.data["cases"], dict(ranks=count, case=case, verdict="FAILED", why=[str(ended)])])
                print(f"{count} ranks  {case:26}FAILED\n    {ended}", flush=True)
                ranks.fresh_mps()
    judge(part, count, per_node, left, restarts)


def judge(part, count, per_node, left, restarts):
    ran = [line for line in part.data["cases"] if line["ranks"] == count]
    failed = [line["case"] for line in ran if line["verdict"] != "ok"]
    calls = sum(line.get("calls") or 0 for line in ran)
    nodes = f", {per_node} to a node" if per_node > 1 else ""
    shown = f"{len(ran) - len(failed)} ok, {calls} calls compressed on each rank{'; failed: ' + ', '.join(failed) if failed else ''}"
    part.check(f"{count} ranks{nodes}: the bits of wire_format.py, the same on all ranks", not failed if ran else None, shown)
    if left:
        why = "too many jobs ended" if restarts >= 4 else "no time"
        part.check(f"{count} ranks{nodes}: all cases", None if restarts < 4 else False, f"{why} for {', '.join(left)}")


def main():
    parser = suite_part.parser_of(__doc__, 300)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks")
    parser.add_argument("--per-node", type=int, default=1, help="ranks that count as one node")
    parser.add_argument("--cases", default="", help="only these, by name")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        ranks.serve(Rank())
        return
    ranks.require_gpu()
    known = list(all_cases())
    cases = arguments.cases.split(",") if arguments.cases else list(all_cases("case_"))
    unknown = [case for case in cases if case not in known]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are: {', '.join(known)}")
    part = suite_part.Part("semantics", arguments)
    part.put(cases=[])
    for count in map(int, arguments.ranks.split(",")):
        run_all(part, count, arguments.per_node, cases)
    sys.exit(part.end())


if __name__ == "__main__":
    main()
