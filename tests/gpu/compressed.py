"""The compressed AllReduce beside NCCL's own, a cast to half, and NCCL's fp8, on a real GPU: `airamp bench`, several ranks on one
card. Rates need root and tc.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/compressed.py [--parts unshaped,shaped,errors] [--ranks 2,4,8]
                                                                    [--rates 40gbit,10gbit] [--limit 100]

One job for each number of ranks and rate, so that each table is there as soon as it is measured, and one that fails loses no
other. 8 ranks that connect over a loopback with a rate fail now and then in NCCL: such a job is tried once more, unless it took
long; what NCCL warned of (NCCL_DEBUG=WARN) and all that the ranks said is in FOLDER/NAME-TRY-….txt then. A shaped one that is less
than was asked for is repeated once, with more iterations, and that is what counts.
Exit status: 0 all ranks ended with the same bits, as fast and as exact as is promised; 1 not so, or a job failed; 77 there is no GPU.
"""

import glob
import json
import os
import subprocess
import sys
import time

import grid_rank
import loopback
import ranks
import suite_part

TYPES = "float16,bfloat16,float32"
# The least speedup of 16-bit types and of float32, by the kind of link.
LEAST = {"unshaped": (1.70, 1.70), "shaped": (1.90, 3.70)}
# What tensors hold, and the largest vNMSE of e4m3 and of auto.
MOST = {"normal": (1.5e-3, 1.0e-4), "spikes": (1, 6e-4), "lognormal": (1, 4e-4)}
# Seconds: a job that fails later is not tried again; airamp's own end of its ranks takes 10; what a job takes at least.
SOON, GRACE, A_JOB = 60, 25, 5
MORE_ITERATIONS = 15


def jobs_of(kind, arguments):
    """Name, what is asked for, and arguments of `airamp bench`."""
    sizes = {"unshaped": arguments.sizes or "256MiB", "shaped": arguments.sizes or "64MiB", "errors": arguments.sizes or "16MiB"}[kind]
    for count in arguments.ranks.split(","):
        words = ["--ranks", count, "--sizes", sizes]
        if kind == "unshaped":
            yield f"unshaped-{count}", LEAST[kind], [*words, "--datatypes", TYPES, "--link-rate", "loopback", "--iterations", "7"]
        elif kind == "shaped":
            for rate in arguments.rates.split(","):
                yield f"shaped-{rate}-{count}", LEAST[kind], [*words, "--datatypes", TYPES, "--link-rate", rate, "--warmup", "1"]
        else:
            for data, most in MOST.items():
                more = ["--datatypes", "float32,bfloat16", "--formats", "auto,e4m3", "--data", data]
                more += ["--link-rate", "loopback", "--iterations", "1", "--warmup", "0"]
                yield f"errors-{data}-{count}", most, [*words, *more]


class Failed(Exception):
    """A job that did not end well; the text says how, and what it said last."""


def bench(words, limit, notes):
    """The rows of one job; bounded. What NCCL warns of goes to files that begin with `notes`, and what the ranks said if the job fails."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("AIRAMP_BIN") or os.path.join(here, "..", "..", "target", "release")
    # The library would warn of a variable that it does not know.
    environment = {name: value for name, value in os.environ.items() if name != "AIRAMP_BIN"}
    environment["AIRAMP_RANK_NCCL"] = grid_rank.nccl_file()
    # Of %p NCCL makes the process: on its standard output, where it warns otherwise, the ranks' results are read.
    environment.update(NCCL_DEBUG="WARN", NCCL_DEBUG_FILE=f"{notes}-nccl-%p.txt")
    process = subprocess.Popen(
        [os.path.join(folder, "airamp"), "bench", "--gpu", "--json", *words], env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    try:
        told, errors = process.communicate(timeout=limit)
        ended = f"ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        told, errors = stop(process)
        ended = f"not done in {limit:.0f} s"
    finally:
        stop(process)
    try:
        report = json.loads(told)
    except ValueError:
        report = {"complete": False}
    if not report["complete"]:
        with open(f"{notes}-said.txt", "w") as file:
            file.write(errors)
        raise Failed("\n    ".join([ended, *errors.strip().splitlines()[-5:]]))
    for file in glob.glob(f"{glob.escape(notes)}-nccl-*.txt"):
        os.remove(file)
    return report


def stop(process):
    """Ends it, and its ranks, which it is given the time to do; what it had said."""
    if process.poll() is not None:
        return "", ""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def judge(kind, asked, rows):
    """Why the rows are less than was asked for; empty if they are not."""
    ours = [row for row in rows if row["is_ours"] and row["format"] in ("auto", "e4m3")]
    why = [] if ours else ["nothing was measured"]
    for row in ours:
        what = f"{row['datatype']} {row['format']}"
        if row["not_offered"]:
            why.append(f"{what} not measured: {row['not_offered']}")
        elif not row["identical_bits"]:
            why.append(f"{what}: the ranks ended with different bits")
        elif row["vnmse"] is None:
            why.append(f"{what}: not finite")
        elif kind == "errors":
            most = asked[0 if row["format"] == "e4m3" else 1]
            if not row["vnmse"] <= most:
                why.append(f"{what}: vNMSE {row['vnmse']:.2e} above {most}")
        else:
            least = asked[1 if row["datatype"] == "float32" else 0]
            if not row["speedup"] >= least:
                why.append(f"{what}: {row['speedup']:.2f}x below {least:.2f}x")
    return why


def show(rows):
    for row in rows:
        line = f"{row['ranks']:>5}  {row['datatype']:9}{row['bytes'] >> 20:>5} MiB  {row['format']:12}"
        if row["not_offered"]:
            print(f"{line}{row['not_offered']}")
            continue
        error = "not finite" if row["vnmse"] is None else f"{row['vnmse']:.2e}"
        print(f"{line}{row['time_us'] / 1e3:10.2f} ms{row['speedup']:7.2f}x  vNMSE {error}", flush=True)


def found(kind, rows):
    ours = [row for row in rows if row["is_ours"] and not row["not_offered"]]
    if kind == "errors":
        return ", ".join(f"{row['datatype']} {row['format']} {row['vnmse'] or 0:.1e}" for row in ours)
    return ", ".join(f"{row['datatype']} {row['speedup']:.2f}x" for row in ours)


class Jobs:
    def __init__(self, part, arguments):
        self.part, self.arguments, self.tries = part, arguments, 0

    def limit(self):
        return max(1, min(self.arguments.limit, self.part.left()))

    def attempt(self, name, words):
        """The report of the first try that ends well, of two."""
        for number in (1, 2):
            self.part.say(f"{name}: airamp bench --gpu {' '.join(words)}")
            before, began = loopback.held(), time.monotonic()
            self.tries += 1
            try:
                return bench(words, self.limit(), os.path.join(self.arguments.output, f"{name}-{self.tries}"))
            except Failed as failed:
                self.part.say(f"{name} failed at try {number}: {failed}")
                # A second one would be refused.
                loopback.leave_as(before)
                ranks.fresh_mps()
                if number == 2 or time.monotonic() - began > SOON or self.part.left() < A_JOB:
                    raise

    def run(self, kind, name, asked, words):
        report = self.attempt(name, words)
        show(report["results"])
        why, again = judge(kind, asked, report["results"]), ""
        if why and kind == "shaped" and self.part.left() > A_JOB:
            again = f"; repeated with {MORE_ITERATIONS} iterations, since at first {'; '.join(why)}"
            self.keep(name, kind, report)
            report = self.attempt(name, [*words, "--iterations", str(MORE_ITERATIONS)])
            show(report["results"])
            why = judge(kind, asked, report["results"])
        self.keep(name, kind, report)
        words = "; ".join([found(kind, report["results"]), *why])
        self.part.check(self.claim(kind, name, asked), not why, words + again)

    def keep(self, name, kind, report):
        where = report["environment"] or {}
        if where:
            self.part.put(machine={"device": where.get("device"), "nccl": where.get("version")})
        self.part.data["jobs"].append({"name": name, "kind": kind, "settings": report["settings"], "rows": report["results"]})
        self.part.put()

    @staticmethod
    def claim(kind, name, asked):
        if kind == "errors":
            return f"{name}: vNMSE at most {asked[0]:g} (e4m3), {asked[1]:g} (auto)"
        return f"{name}: at least {asked[0]:.2f}x, float32 {asked[1]:.2f}x"


def conduct(arguments):
    part = suite_part.Part("compressed", arguments)
    part.put(jobs=[])
    jobs = Jobs(part, arguments)
    for kind in arguments.parts.split(","):
        for name, asked, words in jobs_of(kind, arguments):
            claim = jobs.claim(kind, name, asked)
            if part.left() < A_JOB:
                part.check(claim, None, "no time")
            elif kind == "shaped" and "noqueue" not in loopback.held():
                part.check(claim, None, f"loopback cannot be shaped: {loopback.held().strip() or 'tc is missing'}")
            else:
                try:
                    jobs.run(kind, name, asked, words)
                except Failed as failed:
                    part.check(claim, False, str(failed))
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 600)
    parser.add_argument("--parts", default="unshaped,shaped,errors")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--rates", default="40gbit,10gbit", help="of the shaped jobs")
    parser.add_argument("--sizes", help="of the tensors (default: 256MiB unshaped, 64MiB shaped, 16MiB for errors)")
    parser.add_argument("--limit", type=float, default=100, help="seconds for a job")
    arguments = parser.parse_args()
    ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
