"""compute-sanitizer around a program that runs every kernel once (`--sanitize`), and one that writes astray (`--stray`): kernels.py."""

import os
import signal
import subprocess
import sys

# Of the part's time: what is left for its end.
END = 5

# What the tool says at its end where it has found nothing. Its exit status alone would also be that of one that did not look.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}


def under(tool, part, program):
    """The program under compute-sanitizer, which sees an allocation's end only where PyTorch asks the driver for each."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", "--kernel-name", "kernel_substring=airamp_"]
    command += [sys.executable, os.path.abspath(program)]
    environment = dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1")

    def run(what):
        """Its exit status, None where there was no time for its end, and what it said, which stays in a file."""
        name = os.path.splitext(part.file)[0] + what.replace("--", "-") + ".txt"
        with open(name, "w") as file:
            # In a group of its own, as the tool starts the program, which would go on without it.
            process = subprocess.Popen([*command, what], env=environment, stdout=file, stderr=subprocess.STDOUT, preexec_fn=os.setpgrp)
            try:
                status = process.wait(max(1, part.left() - END))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
        with open(name, errors="replace") as file:
            return status, file.read()

    if tool == "memcheck":
        status, said = run("--stray")
        finds = status != 0 and "Invalid __global__ write" in said
        part.check(f"{tool} finds a stray write that is made for it", finds, ended(status) if finds else f"{ended(status)}: {said[-2000:]}")
    status, said = run("--sanitize")
    print(said[-8000:], flush=True)
    summary = [line.strip("= ") for line in said.splitlines() if "SUMMARY" in line]
    bits = [line for line in said.splitlines() if line.startswith("bits:")]
    clean = status == 0 and CLEAN[tool] in said
    part.check(f"{tool}: nothing found in any kernel, and the bits are right", clean, "; ".join([*summary, *bits, ended(status)]))
    return part.end()


def ended(status):
    return "not ended" if status is None else f"exit status {status}"
