"""What a release is made of: the crates that are linked into it, as a CycloneDX list and as one file of licence texts. All of
it comes from `cargo metadata` and the sources that cargo has fetched; a crate without a licence text is an error. Called by tree."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import uuid

SHIPPED = ["airamp", "airampd", "airamp-rank", "airamp-interposer", "airamp-emulated-cuda", "airamp-emulated-hip"]
TEXTS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
HERE = pathlib.Path(__file__).resolve().parent


def metadata(root, processor):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", f"{processor}-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)


def linked(data):
    """Packages by id that are compiled for what is shipped, and what each of them uses. Neither tests nor build scripts."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    wanted = [package["id"] for package in data["packages"]
              if package["name"] in SHIPPED and package["id"] in data["workspace_members"]]
    if len(wanted) != len(SHIPPED):
        raise SystemExit("not all packages that are shipped are in the workspace")
    uses = {}
    while wanted:
        package = wanted.pop()
        if package not in uses:
            uses[package] = sorted(other["pkg"] for other in nodes[package]["deps"]
                                   if any(kind["kind"] is None for kind in other["dep_kinds"]))
            wanted += uses[package]
    return {package: packages[package] for package in sorted(uses)}, uses


def checksums(root):
    """Of the registry's files, by name and version."""
    text = (root / "Cargo.lock").read_text()
    found = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"', text)
    return {(name, version): checksum for name, version, checksum in found}


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    made = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"],
            "purl": reference(package), "licenses": [{"expression": expression(package)}]}
    if (package["name"], package["version"]) in sums:
        made["hashes"] = [{"alg": "SHA-256", "content": sums[package["name"], package["version"]]}]
    if package.get("description"):
        made["description"] = " ".join(package["description"].split())
    return made


def expression(package):
    if not package.get("license"):
        raise SystemExit(f"{package['name']} {package['version']} names no licence")
    return package["license"].replace("/", " OR ")


def standard_library():
    """Rust's own, which is linked in statically, by the compiler that is in use."""
    text = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {"name": "rust-std", "version": text.split()[1], "license": "MIT OR Apache-2.0",
            "description": "The Rust standard library"}


def bill(root, processor, version, epoch):
    """The CycloneDX list as bytes, the same ones each time."""
    packages, uses = linked(metadata(root, processor))
    sums = checksums(root)
    std = standard_library()
    own = {"type": "application", "bom-ref": "airamp-accel", "name": "airamp-accel", "version": version,
           "licenses": [{"expression": "Apache-2.0"}]}
    tops = sorted(reference(package) for package in packages.values() if package["name"] in SHIPPED)
    graph = [{"ref": "airamp-accel", "dependsOn": tops}]
    graph += [{"ref": reference(packages[one]), "dependsOn": [reference(packages[other]) for other in uses[one]]} for one in uses]
    graph.sort(key=lambda entry: entry["ref"])
    body = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "component": own},
            "components": [component(package, sums) for package in [*packages.values(), std]], "dependencies": graph}
    name = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    body["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}"
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()


def texts_of(package):
    """The licence files of a crate. One that has none, and may be used under Apache-2.0, is; its text is our own LICENSE."""
    folder = pathlib.Path(package["manifest_path"]).parent
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and TEXTS.match(path.name)]
    found += [path for path in sorted((folder / "LICENSES").glob("*")) if path.is_file()]
    kept = sorted((HERE / "licences").glob(f"{package['name']}.*"))
    found += kept
    if not found and "Apache-2.0" in re.split(r"\s+OR\s+", expression(package)):
        return [HERE.parents[1] / "LICENSE"]
    if not found:
        raise SystemExit(f"{package['name']} {package['version']} ({package['license']}) brings no licence text: "
                         f"put it into deploy/release/licences/{package['name']}.txt")
    return found


def texts_of_standard_library():
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    documents = pathlib.Path(sysroot, "share/doc/rust")
    candidates = [documents / "licenses/MIT.txt", documents / "LICENSE-MIT", HERE / "licences/rust-std.txt"]
    return [path for path in candidates if path.is_file()][:1]


def licences(root, processor):
    """Every text once, below the names of the crates that have it."""
    packages, _ = linked(metadata(root, processor))
    foreign = [(package, texts_of(package)) for package in packages.values() if package["source"]]
    std = texts_of_standard_library()
    if not std:
        raise SystemExit("no licence text of the Rust standard library was found")
    foreign.append((standard_library(), std + [HERE.parents[1] / "LICENSE"]))
    by_text = {}
    for package, files in foreign:
        for file in files:
            text = "\n".join(line.rstrip() for line in file.read_text(errors="replace").strip().splitlines())
            by_text.setdefault(text, set()).add(f"{package['name']} {package['version']} ({expression(package)})")
    parts = ["Licences of what AIRamp-Accel is made of. AIRamp-Accel itself: Apache-2.0, see LICENSE.\n"]
    for text, names in sorted(by_text.items(), key=lambda entry: sorted(entry[1])):
        parts.append("=" * 100 + "\n" + "\n".join(sorted(names)) + "\n" + "-" * 100 + "\n" + text + "\n")
    return ("\n".join(parts)).encode()


if __name__ == "__main__":
    repository = HERE.parents[1]
    print(len(bill(repository, "x86_64", "0", int(os.environ.get("SOURCE_DATE_EPOCH", "0")))), len(licences(repository, "x86_64")))
