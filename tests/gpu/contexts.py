"""Does the driver tell a context from another one at its place? The library asks it (`cuCtxGetId`) before it uses or gives
back what it loaded in a context that may be gone.

    python3 tests/gpu/contexts.py

Prints each number and what must hold of it. Needs no NCCL and no PyTorch; runs on the emulator too (LD_LIBRARY_PATH). Each
kind of context has a process of its own, since a driver may crash where it is asked for one that is gone.
Exit status: 0 all held, 1 something did not, 77 no GPU, or a driver before CUDA 12, which has no such numbers.
"""

import ctypes
import subprocess
import sys

import suite_part

SKIPPED = 77


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def must(self, name, *arguments):
        code = self.call(name, *arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")

    def has_numbers(self):
        return hasattr(self.library, "cuCtxGetId")

    def primary(self):
        context = ctypes.c_void_p()
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        return context

    def created(self):
        context = ctypes.c_void_p()
        self.must("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        return context

    def number(self, context):
        """None where the driver gives none."""
        number = ctypes.c_ulonglong()
        code = self.call("cuCtxGetId", context, ctypes.byref(number))
        return number.value if code == 0 else None


class Claims:
    def __init__(self):
        self.failed = False

    def expect(self, holds, claim):
        self.failed |= not holds
        print(f"{'ok    ' if holds else 'FAILED'} {claim}", flush=True)


def of_a_reset(driver, claims):
    """The one that frameworks share."""
    context = driver.primary()
    before = driver.number(context)
    claims.expect(before is not None and driver.number(context) == before, f"a primary context keeps its number, {before}")
    driver.must("cuDevicePrimaryCtxReset_v2", 0)
    gone = driver.number(context)
    claims.expect(gone != before, f"reset, it has another or none: {gone}")
    again = driver.primary()
    after, place = driver.number(again), "at the same place" if again.value == context.value else "elsewhere"
    claims.expect(after not in (None, before), f"the next one, {place}, has another: {after}")


def of_a_created_one(driver, claims):
    context = driver.created()
    before = driver.number(context)
    claims.expect(before is not None, f"a context that was created has a number, {before}")
    driver.must("cuCtxDestroy_v2", context)
    gone = driver.number(context)
    claims.expect(gone != before, f"destroyed, it has another or none: {gone}")


KINDS = {"primary": of_a_reset, "created": of_a_created_one}


def lacking():
    """What this machine has not; None if it has all."""
    try:
        driver = Driver()
        driver.must("cuInit", 0)
    except (OSError, RuntimeError) as error:
        return f"no GPU: {error}"
    return None if driver.has_numbers() else "the driver has no cuCtxGetId"


def conduct(arguments):
    part = suite_part.Part("contexts", arguments)
    for kind in KINDS:
        found = subprocess.run([sys.executable, __file__, "--kind", kind], stdout=subprocess.PIPE, text=True, errors="replace")
        print(found.stdout, end="", flush=True)
        held = found.returncode == 0 and "ok" in found.stdout
        ended = "" if found.returncode in (0, 1) else f"; the process ended with {found.returncode}"
        part.check(f"{kind} contexts are told apart", held, "; ".join(found.stdout.split("\n")).strip("; ") + ended)
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 60)
    parser.add_argument("--kind", choices=KINDS, help="one kind alone, in this process")
    arguments = parser.parse_args()
    lacks = lacking()
    if lacks:
        print(lacks)
        return SKIPPED
    if not arguments.kind:
        return conduct(arguments)
    claims, driver = Claims(), Driver()
    driver.must("cuInit", 0)
    KINDS[arguments.kind](driver, claims)
    return 1 if claims.failed else 0


if __name__ == "__main__":
    sys.exit(main())
