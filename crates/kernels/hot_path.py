"""The instructions that a warp executes for a whole tile (1024 elements, 32 to a lane) by reduce and quantise.

    python3 crates/kernels/hot_path.py crates/kernels/blobs/sm_90.cubin [-v]      (-v: also the instructions)

Needs cuobjdump and nvdisasm (PyPI nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm) in PATH, and no GPU. It counts the
shortest way around the loop over tiles that loads what a tile of so many ranks takes, computes a scale and stores
codes and scale words: branches for what is rare make a way longer. Blocks of int8 and auto are INT8. Not counted
is what one lane in several does, and what is counted for stats.
"""

import collections
import re
import subprocess
import sys

# LDS.64 for each rank of a tile: codes of 4 blocks.
LOADS_PER_RANK = 4
PIPES = {
    "FMA": r"FFMA|FMUL|FADD|HADD2|HFMA2",
    "IMAD, IDP": r"IMAD|IDP",
    "ALU": r"LOP3|PRMT|SHF|ISETP|FSETP|IADD3|VIADD|SEL|LEA|MOV|PLOP3|VOTE|F2FP|I2FP|\w*MNMX\w*",
    "memory": r"LDG|LDGSTS|LDGDEPBAR|STG|LDC|LDS|STS|LDL|STL",
    "SHFL": r"SHFL",
}


def functions(cubin):
    """The instructions of each kernel, as (address, text)."""
    listing = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True, check=True).stdout
    found, body = {}, []
    for line in listing.splitlines():
        if name := re.search(r"Function : airamp_(\w+)", line):
            body = found[name[1]] = []
        elif instruction := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line):
            body.append((int(instruction[1], 16), instruction[2]))
    return found


def branch(text):
    """Where a branch goes and whether it may not; None for other instructions and for divergent warps."""
    found = re.match(r"(@\S+ )?BRA (?:!?U?P\d, )?0x([0-9a-f]+)$", text)
    return found and (int(found[2], 16), found[1] is not None)


def hot_path(body, load, loads, never):
    place = {address: number for number, (address, _) in enumerate(body)}
    jumps = {place[address]: found for address, text in body if (found := branch(text))}
    end, start = max(
        ((number, place[to]) for number, (to, open_) in jumps.items() if open_ and place[to] < number),
        key=lambda loop: loop[0] - loop[1],
    )
    wanted = (end, loads, True, True)
    before = {(start, 0, False, False): None}
    queue = collections.deque(before)
    while queue and wanted not in before:
        state = number, loaded, scaled, stored = queue.popleft()
        text = body[number][1]
        if re.search(never, text):
            continue
        loaded += re.search(load, text) is not None
        scaled = scaled or "MUFU.RCP" in text
        stored = stored or "STG.E.U16" in text
        to, open_ = jumps.get(number, (None, True))
        following = ([number + 1] if open_ else []) + ([place[to]] if to is not None else [])
        for next_ in following:
            reached = (next_, loaded, scaled, stored)
            if loaded <= loads and start <= next_ < len(body) and reached not in before:
                before[reached] = state
                queue.append(reached)
    path, state = [], wanted
    while state is not None:
        path.append(body[state[0]])
        state = before[state]
    return path[::-1]


def pipe(text):
    operation = re.sub(r"@\S+ ", "", text).split()[0].split(".")[0]
    return next((name for name, known in PIPES.items() if re.fullmatch(known, operation)), "other")


def main():
    kernels = functions(sys.argv[1])
    print(f"{'':26}{'per tile':>9}{'per element':>13}" + "".join(f"{name:>11}" for name in [*PIPES, "other"]))
    for operation, ranks in (("reduce", 4), ("reduce", 8), ("quantise", 1)):
        for kind in ("f16", "bf16", "f32"):
            for form in ("e4m3", "e5m2", "int8", "auto"):
                reading = operation == "reduce"
                load = r"LDS\.64 " if reading else r"LDG\.E\.128 "
                loads = LOADS_PER_RANK * ranks if reading else 8 if kind == "f32" else 4
                never = r"ATOM|EXIT|RET|CALL" + ("|UNPACK" if form in ("int8", "auto") else "")
                path = hot_path(kernels[f"{operation}_{kind}_{form}"], load, loads, never)
                pipes = collections.Counter(pipe(text) for _, text in path)
                name = f"{operation} {kind} {form}" + (f", {ranks} ranks" if reading else "")
                columns = "".join(f"{pipes[pipe_]:11}" for pipe_ in [*PIPES, "other"])
                print(f"{name:26}{len(path):9}{len(path) / 32:13.1f}{columns}")
                if "-v" in sys.argv:
                    print("\n".join(f"    {address:05x} {text}" for address, text in path))


if __name__ == "__main__":
    main()
