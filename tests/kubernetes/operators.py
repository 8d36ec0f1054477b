#!/usr/bin/env python3
"""Checks the custom resources of deploy/kubernetes against the operators' own definitions, as an API server would and strictly: an
unknown field is an error. The definitions are the operators' files, which are not in this repository:

    PYTHONPATH=$(tests/kubernetes/tools) tests/kubernetes/operators.py DEFINITION.yaml [DEFINITION.yaml …]

Prints 'PATH: what is wrong' for each fault, and at the end what was checked; exit 1 if there is a fault, or a custom resource for
which no definition was given."""

import pathlib
import subprocess
import sys

import jsonschema
import yaml

import check
import render
from schemas import SCHEMAS

ROOT = pathlib.Path(__file__).parents[2] / "deploy/kubernetes"


def definitions(paths):
    """(group/version, kind) -> its schema, strict."""
    found = {}
    for path in paths:
        for definition in yaml.load_all(pathlib.Path(path).read_text(), Loader=yaml.CSafeLoader):
            spec = definition["spec"]
            for version in spec["versions"]:
                key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                found[key] = strict(version["schema"]["openAPIV3Schema"], is_root=True)
    return found


def strict(schema, is_root=False):
    """The same, where an object has no other fields than those that are named."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if key not in ("properties", "default", "enum")}
    if "enum" in schema:
        made["enum"] = schema["enum"]
    if "properties" in schema:
        made["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        open_ended = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
        if not open_ended:
            made["additionalProperties"] = False
    if is_root:
        made["properties"]["metadata"] = {"type": "object"}
    return made


def custom_resources():
    for name, group in check.manifests(ROOT):
        yield from ((name, one) for one in group if one["kind"] in SCHEMAS)
    rules = subprocess.run([ROOT / "monitoring/rules"], check=True, capture_output=True, text=True).stdout
    yield "monitoring/rules", yaml.load(rules, Loader=render.AsKubectl)


def main():
    known, found, checked = definitions(sys.argv[1:]), 0, []
    for name, manifest in custom_resources():
        kind = (manifest["apiVersion"], manifest["kind"])
        faults = [f"no definition of {kind[1]} in {kind[0]} was given"]
        if kind in known:
            validator = jsonschema.Draft202012Validator(known[kind])
            faults = [f"{'.'.join(map(str, one.path))}: {one.message}" for one in validator.iter_errors(manifest)]
            checked.append(f"{name} ({kind[1]})")
        found += len(faults)
        for fault in faults:
            print(f"{name}: {fault}")
    print("checked:", ", ".join(checked) or "nothing")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
