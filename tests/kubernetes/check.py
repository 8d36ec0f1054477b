"""Checks the manifests below each folder that is given (deploy/kubernetes, or a copy): Kubernetes' own schemas, strictly,
of the oldest and the newest version meant; ours for custom resources; the rules of wiring.py for what no schema says. A file
is checked against the schemas alone. Prints 'PATH: what is wrong' for each fault; exit 1 if there is one."""

import functools
import pathlib
import re
import sys

import jsonschema
import kubernetes_validate
from kubernetes_validate import utils

import render
import wiring
from schemas import SCHEMAS

# Native sidecars are there without a feature gate since 1.29.
VERSIONS = ["1.29", utils.major_minor(utils.latest_version())]
KUSTOMIZATIONS = ["namespace", "base", "overlays/nvidia", "overlays/amd", "monitoring/pods", "monitoring/service"]

utils.schema_contents = functools.lru_cache(utils.schema_contents)


def manifests(root):
    """Everything that a reader can apply, by the name it is applied under."""
    for name in KUSTOMIZATIONS:
        yield name, render.render(root / name)
    for path in sorted((root / "examples").glob("*.yaml")):
        yield f"examples/{path.name}", render.documents(path)


def pods(node):
    """The pod templates in a manifest."""
    if isinstance(node, dict):
        if "containers" in node.get("spec", {}) and "metadata" in node:
            yield node
        else:
            node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from pods(one)


def against_schemas(manifest):
    kind = manifest.get("kind")
    for version in VERSIONS:
        subjects = [manifest]
        if kind in SCHEMAS:
            subjects = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods(manifest)]
        for subject in subjects:
            try:
                kubernetes_validate.validate(subject, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                where = ".".join(str(part) for part in error.path)
                yield f"{kind} in Kubernetes {version}: {where}: {error.message}"
            except kubernetes_validate.SchemaNotFoundError:
                yield f"{kind}: Kubernetes {version} does not know it, and neither do we"
    if kind in SCHEMAS:
        for error in jsonschema.Draft202012Validator(SCHEMAS[kind]).iter_errors(manifest):
            yield f"{kind}: {'.'.join(str(part) for part in error.path)}: {error.message}"


def faults(root):
    """Schemas first: the rules take for granted that a manifest has the form that they ask for."""
    everything = list(manifests(root)) if root.is_dir() else [(root.name, render.documents(root))]
    malformed = [
        f"{name}: {fault}" for name, group in everything for one in group for fault in against_schemas(one)
    ]
    return malformed if malformed or root.is_file() else list(against_rules(everything))


def against_rules(everything):
    known = set(re.findall(r"^(?:\||-) `(AIRAMP_\w+)`", settings_page(), re.MULTILINE))
    model = next(pod for name, group in everything if name == "base" for one in group for pod in pods(one))
    for name, group in everything:
        for manifest in group:
            found = list(wiring.of_access(manifest, model))
            for pod in pods(manifest):
                found += wiring.of_pod(pod["spec"], pod["metadata"]["labels"], model["spec"], known)
            yield from (f"{name}: {manifest['kind']}: {fault}" for fault in found)
        if name.startswith("overlays/"):
            yield from (f"{name}: {fault}" for fault in wiring.of_overlay(group, pods))


def settings_page():
    return (pathlib.Path(__file__).parents[2] / "docs/settings.md").read_text()


def main():
    found = 0
    for root in map(pathlib.Path, sys.argv[1:]):
        for fault in faults(root):
            found += 1
            print(f"{root}: {fault}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
