"""What an application may do with AllReduce, through the library with compression on, on real NCCL from PyTorch.

    AIRAMP_BIN=… python3 tests/gpu/semantics.py [--ranks 2,4] [--per-node 1] [--cases NAME,…]

Every result is compared bit for bit with wire_format.py, which shares nothing with the library, and between all
ranks; and every case must have been compressed. One line per case: ok, or FAILED and why.
Exit status: 0 all ok, 1 not, 77 no GPU.
--per-node 2 makes them take two ranks each for a node, though every one says that it is a host of its own: three exchanges.
With 2 ranks PyTorch makes the communicator at the first call, with more at once (device_id), and splits groups off it.
"""

import argparse
import sys
import time

import ranks

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


def run(job, case, count):
    """One case; its line is printed. False: it failed."""
    begin = time.monotonic()
    answers = job.ask({"case": case})
    why = verdict(answers)
    note = answers[0]["note"]
    calls = f"{answers[0]['calls']} compressed" if "calls" in answers[0] else ""
    word, took = "FAILED" if why else "ok", time.monotonic() - begin
    print(f"{count} ranks  {case:26}{word:8}{calls:16}{took:5.1f} s  {note}".rstrip(), flush=True)
    for reason in why[:6]:
        print(f"    {reason}", flush=True)
    return not why


def run_all(count, per_node, cases, failed):
    """The cases with so many ranks. After a case that ended the ranks the rest goes on with fresh ones."""
    left, restarts, settings = list(cases), 0, dict(SETTINGS, AIRAMP_RANKS_PER_NODE=str(per_node))
    while left and restarts < 4:
        with ranks.Ranks(__file__, count, "compressed", settings, limit=45) as job:
            case = "start"
            try:
                if not run(job, case, count):
                    print("".join(f"    {line}\n" for line in job.complaints()), end="")
                    failed.append((count, case))
                while left:
                    case = left.pop(0)
                    if not run(job, case, count):
                        failed.append((count, case))
            except ranks.Ended as ended:
                restarts += 1
                failed.append((count, case))
                print(f"{count} ranks  {case:26}FAILED\n    {ended}", flush=True)
    failed.extend((count, case) for case in left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    failed = []
    for count in map(int, arguments.ranks.split(",")):
        run_all(count, arguments.per_node, cases, failed)
    print(f"{len(failed)} failed" if failed else "all ok")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
