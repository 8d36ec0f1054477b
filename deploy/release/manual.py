"""A man page from what a program says to --help, for the programs whose parser airamp does not know: paragraphs, options, and
lists as they stand. Called by tree."""

import re

SPECIAL = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})
# Paragraphs that a manual has a place of its own for.
PLACES = {"Exit code": "EXIT STATUS", "Settings come from": "ENVIRONMENT"}
LAST = ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]


def quoted(line):
    line = line.translate(SPECIAL)
    return "\\&" + line if line[:1] == "." else line


def sections(lines):
    """What --help says below its first line, by the headings of a manual."""
    found = {"SYNOPSIS": [], "DESCRIPTION": []}
    title, begins = "DESCRIPTION", True
    for line in lines:
        heading = re.fullmatch(r"([A-Z][A-Za-z ]+):", line)
        usage = re.match(r"(?:Usage: | {7}(?=airamp))(.*)", line)
        place = next((place for start, place in PLACES.items() if begins and line.startswith(start)), None)
        begins = not line
        if usage and (line[0] == "U" or title == "SYNOPSIS"):
            title = "SYNOPSIS"
            found[title] += [quoted(usage.group(1)), ".br"]
            continue
        if title == "SYNOPSIS" and line:
            title = "DESCRIPTION"
        title = heading.group(1).upper() if heading else place or title
        found.setdefault(title, [])
        if not heading and title != "SYNOPSIS":
            found[title].append(line)
    return found


def body(lines):
    """Paragraphs are filled; lists, which are indented, stand as they are."""
    out, in_list = [], False
    for line in "\n".join(lines).strip("\n").split("\n"):
        is_list = line.startswith("  ")
        if is_list and not in_list:
            out += [".PP", ".nf"]
        if in_list and line and not is_list:
            out = [*out[: -1 if not out[-1] else None], ".fi", ".PP"]
        in_list = is_list or (in_list and not line)
        out.append(quoted(line) if line or in_list else ".PP")
    return [*out, ".fi"] if in_list else out


def page(name, section, version, date, text, see):
    """`see`: names of other pages with their sections, as in airamp(1)."""
    first, *lines = text.rstrip().splitlines()
    first = first.rstrip(".")
    found = sections(lines)
    if not any(found["DESCRIPTION"]):
        found["DESCRIPTION"] = [first + "."]
    found["SEE ALSO"] = [*found.get("SEE ALSO", []), ", ".join(see)]
    out = [f'.TH {name.upper()} {section} {date} "airamp {version}" AIRamp-Accel', ".nh", ".ad l", ".SH NAME",
           f"{quoted(name)} \\- {quoted(first[:1].lower() + first[1:])}"]
    for title in [*(title for title in found if title not in LAST), *(title for title in LAST if title in found)]:
        content = found[title][:-1] if title == "SYNOPSIS" else body(found[title])
        out += [f".SH {title}", *content] if content else []
    return "\n".join(out) + "\n"
