"""Holds spec.py against the test vectors of docs/wire-format.md: `python3 tests/wire/vectors.py`.
Says how many there were, or ends at the first that differs."""

import pathlib
import re
import sys

import spec

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/wire-format.md"
TAG = (0x0123456789ABCDEF, 0x77)


def section(text, heading):
    return text.partition(f"### {heading}\n")[2].partition("\n#")[0]


def rows(text):
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def numbers(text):
    return [int(digits, 16) for digits in text.split()]


def packet(codes, word, tag=TAG):
    """Of one block."""
    codes = bytes(numbers(codes)).ljust(spec.BLOCK, b"\0")
    whole = b"".join(number.to_bytes(8, "little") for number in tag) + codes
    return (whole + int(word, 16).to_bytes(2, "little")).ljust(spec.packet_bytes(1), b"\0")


def same(found, expected, what):
    if found != expected:
        sys.exit(f"{what}:\nspec.py gives {found}\nthe document {expected}")


def same_packet(found, expected, what):
    same(found.hex(" "), expected.hex(" "), what)


def check_packet(row):
    name, form, elements, codes, word, back = row
    element, elements = spec.ELEMENTS[name], numbers(elements)
    same_packet(spec.write_packet(element, elements, form, TAG)[0], packet(codes, word), row)
    read, foreign = spec.read_packet(element, packet(codes, word), len(elements), form, TAG)
    same((read, foreign), (numbers(back), 0), row)


def check_reduction(row):
    name, form, operation, inputs, one_shot, codes, word = row
    element = spec.ELEMENTS[name]
    inputs = [numbers(elements) for elements in inputs.split("/")]
    packets = [
        spec.write_packet(element, elements, form, (TAG[0], TAG[1] + rank))[0]
        for rank, elements in enumerate(inputs)
    ]
    operands = element, packets, len(inputs[0]), form, operation == "avg", TAG
    same(spec.summed(*operands), (numbers(one_shot), 0), row)
    same_packet(spec.reduced(*operands, TAG)[0], packet(codes, word), row)


def check_whole_packet(text):
    element = spec.ELEMENTS["bf16"]
    values = [(37 * i % 101 - 50) / 8 for i in range(128)] + [1000.0, 3.0]
    found, _ = spec.write_packet(element, [element.narrowed(value) for value in values], "auto", TAG)
    listing = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]
    same_packet(found, bytes(numbers(listing)), "the whole packet")


def main():
    text = DOCUMENT.read_text(encoding="utf-8")
    packets, reductions = rows(section(text, "Packets")), rows(section(text, "Reductions of three ranks"))
    for row in packets:
        check_packet(row)
    for row in reductions:
        check_reduction(row)
    check_whole_packet(section(text, "A whole packet"))
    print(f"packets {len(packets)}, reductions {len(reductions)}, whole packets 1: none differs")


main()
