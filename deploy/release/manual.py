"""A man page from what a program says to --help, for the programs whose parser airamp does not know: paragraphs, options, and
lists as they stand. Called by tree."""

import datetime
import re


def quoted(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def page(name, section, version, epoch, text):
    date = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%d")
    out = [f'.TH {name.upper()} {section} {date} "{name} {version}" AIRamp-Accel', ".SH NAME"]
    lines = text.rstrip().splitlines()
    first = lines[0].rstrip(".")
    out += [f"{name} \\- {quoted(first[:1].lower() + first[1:])}", ".SH DESCRIPTION"]
    in_list = False
    for line in lines[1:]:
        heading = re.fullmatch(r"([A-Z][A-Za-z ]+):", line)
        usage = re.fullmatch(r"Usage: (.*)", line)
        is_list = line.startswith("  ")
        if in_list and not is_list and line:
            out.append(".fi")
            in_list = False
        if heading:
            out.append(f".SH {heading.group(1).upper()}")
        elif usage:
            out += [".SH SYNOPSIS", quoted(usage.group(1)), ".PP"]
        elif not line:
            out.append("" if in_list else ".PP")
        else:
            if is_list and not in_list:
                out.append(".nf")
                in_list = True
            out.append(quoted(line))
    if in_list:
        out.append(".fi")
    return "\n".join(out) + "\n"
