"""Where a run is, and how long it may take: steps that are named on stderr and cut off when they take too long, and waits that run
out of patience. So one that hangs says where. cluster.py and jobs.py go through their steps with it."""

import signal
import sys
import time

PATIENCE = 90
STEP_LIMIT = 150
# Shorter than what tests/slurm.rs gives it, which kills it without a word.
RUN_LIMIT = 500
BEGIN = time.monotonic()

waited_in_vain = []
current = "nothing yet"


class TookTooLong(Exception):
    """Not a TimeoutError, which those who ask a daemon take for its answer."""


def say(*words):
    print(f"{time.monotonic() - BEGIN:5.1f} s:", *words, file=sys.stderr, flush=True)


def step(name):
    """What comes now, until the next one."""
    global current
    current = name
    say(name)
    signal.signal(signal.SIGALRM, cut_off)
    signal.setitimer(signal.ITIMER_REAL, min(STEP_LIMIT, max(0.1, BEGIN + RUN_LIMIT - time.monotonic())))


def cut_off(*_):
    raise TookTooLong(current)


def until(holds):
    """The first true answer, or the last one when patience has run out. Something is wrong then, and the waits that come after it
    are short: together they would take longer than the whole run may."""
    end = time.monotonic() + (3 if waited_in_vain else PATIENCE)
    while not (seen := holds()):
        if time.monotonic() > end:
            say("waited in vain:", current)
            waited_in_vain.append(current)
            break
        time.sleep(0.1)
    return seen
