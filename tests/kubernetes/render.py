"""As much of kustomize as deploy/kubernetes uses, so that the checks need no program but Python: resources, images, and
patches that are lists of JSON 6902 operations. Refuses what it does not know, so that a kustomization that needs more
is noticed; a test compares the two. check.py and pod.py call it. By itself it prints a
folder's manifests, or those of a file of plain YAML, as JSON in one order."""

import json
import pathlib
import re
import sys

import yaml

KNOWN = {"apiVersion", "kind", "resources", "images", "patches"}


class AsKubectl(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Takes for numbers and booleans what kubectl 1.32 takes for them, where PyYAML goes by YAML 1.1 alone: no date and no number
    to the base of 60, but `1e-4`, `0o17` and `y`."""

    yaml_implicit_resolvers = {}

    def truth(self, node):
        return node.value[0] in "yYtT" or node.value.lower() == "on"

    def number(self, node):
        text = node.value.replace("_", "").lower()
        sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
        if re.match("0[box]", digits):
            return sign * int(digits, 0)
        if re.fullmatch("[0-9]+", digits):
            return sign * int(digits, 8 if re.fullmatch("0[0-7]+", digits) else 10)
        return sign * float(digits)


KINDS = {
    "null": r"|~|null|Null|NULL",
    "merge": "<<",
    "bool": "|".join(word for low in "y n yes no on off true false".split() for word in {low, low.title(), low.upper()}),
    "int": "[-+]?(0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|[0-9][0-9_]*)",
    "float": r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE]_*[-+]?_*[0-9][0-9_]*)?",
}
for kind, pattern in KINDS.items():
    AsKubectl.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"({pattern})$"), None)
AsKubectl.add_constructor("tag:yaml.org,2002:bool", AsKubectl.truth)
for kind in ["int", "float"]:
    AsKubectl.add_constructor(f"tag:yaml.org,2002:{kind}", AsKubectl.number)


def documents(path):
    """What is in a file, of a list each object by itself, as the cluster takes them."""
    # Through JSON: what shares a YAML anchor would otherwise be one object, and be patched as one.
    found = [json.loads(json.dumps(one)) for one in yaml.load_all(path.read_text(), Loader=AsKubectl) if one]
    return [each for one in found for each in (one["items"] if one.get("kind") == "List" else [one])]


def name_of(manifest):
    metadata = manifest["metadata"]
    return metadata.get("name") or metadata["generateName"]


def render(folder):
    """The manifests of a kustomization, in the order of its resources."""
    folder = pathlib.Path(folder)
    (wanted,) = documents(folder / "kustomization.yaml")
    unknown = set(wanted) - KNOWN
    if unknown:
        raise ValueError(f"{folder}: {sorted(unknown)} is more than render.py knows")
    found = []
    for name in wanted["resources"]:
        path = folder / name
        found += render(path) if path.is_dir() else documents(path)
    for patch in wanted.get("patches", []):
        apply_patch(folder, patch, found)
    for image in wanted.get("images", []):
        for manifest in found:
            rename_images(manifest, image)
    return found


def apply_patch(folder, patch, found):
    if set(patch) != {"path", "target"} or set(patch["target"]) != {"kind", "name"}:
        raise ValueError(f"{folder}: a patch of a kind that render.py does not know")
    kind, name = patch["target"]["kind"], patch["target"]["name"]
    targets = [one for one in found if one["kind"] == kind and one["metadata"]["name"] == name]
    if len(targets) != 1:
        raise ValueError(f"{folder}: {patch['path']} is for {kind} {name}, of which there are {len(targets)}")
    for operation in yaml.safe_load((folder / patch["path"]).read_text()):
        add(targets[0], operation)


def add(manifest, operation):
    if operation["op"] != "add":
        raise ValueError(f"render.py knows no '{operation['op']}'")
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    place = manifest
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = operation["value"]


def rename_images(node, image):
    if isinstance(node, list):
        for one in node:
            rename_images(one, image)
    if isinstance(node, dict):
        named = node.get("image")
        if isinstance(named, str) and named.partition(":")[0] == image["name"]:
            node["image"] = f"{image['newName']}:{image['newTag']}"
        for one in node.values():
            rename_images(one, image)


def main():
    path = pathlib.Path(sys.argv[1])
    found = render(path) if path.is_dir() else documents(path)
    found.sort(key=lambda one: (one["kind"], name_of(one)))
    print(json.dumps(found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
