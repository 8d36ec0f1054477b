"""What spec.py makes of questions, one to a line in JSON, in the file named: `python3 answers.py FILE`.
For each it prints a line: bytes in hexadecimal and a number, of saturated elements where a packet is
written from elements, of foreign packets otherwise. tests/tests/wire_spec.rs asks."""

import json
import sys

import spec


def elements_of(element, text):
    return [number_of(chunk) for chunk in chunks(bytes.fromhex(text), element.size)]


def chunks(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def number_of(data):
    return int.from_bytes(data, "little")


def answer(ask):
    element, form, tag = spec.ELEMENTS[ask["type"]], ask["format"], tuple(ask["tag"])
    if ask["do"] == "write":
        return spec.write_packet(element, elements_of(element, ask["elements"]), form, tag)
    packets = [bytes.fromhex(packet) for packet in ask["packets"]]
    if ask["do"] == "reduce":
        out_tag = tuple(ask["out_tag"])
        return spec.reduced(element, packets, ask["count"], form, ask["average"], tag, out_tag)
    if ask["do"] == "sum":
        elements, number = spec.summed(element, packets, ask["count"], form, ask["average"], tag)
    else:
        elements, number = spec.read_packet(element, packets[0], ask["count"], form, tag)
    return b"".join(bits.to_bytes(element.size, "little") for bits in elements), number


with open(sys.argv[1], encoding="ascii") as questions:
    for line in questions:
        data, number = answer(json.loads(line))
        print(data.hex(), number)
