"""Names in the Python programs of this folder that lead nowhere: what a compiler would find, so that no minute on a GPU is lost to a
typing error. Runs nothing of them and needs nothing but Python; tests/tests/gpu_suite.rs calls it.

    python3 tests/gpu/names.py        exit status: 0 none, 1 some, each printed

It follows variables and functions, what is taken from another program of the folder (`ranks.serve`), and what an object calls its own
(`self.limit`), where the class and all it derives from lie here.
"""

import ast
import builtins
import glob
import os
import symtable
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GIVEN = {*dir(builtins), "__file__", "__name__", "__doc__"}


class Program:
    def __init__(self, path):
        self.path = path
        with open(path) as file:
            text = file.read()
        self.tree, self.table = ast.parse(text, path), symtable.symtable(text, path, "exec")
        self.defined = {symbol.get_name() for symbol in self.table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        self.classes = {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}


def undefined(program):
    """Names that no scope defines."""
    waiting, known = [program.table], program.defined | GIVEN
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        is_module = scope is program.table
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and (is_module or symbol.is_global()) and symbol.get_name() not in known:
                yield f"{symbol.get_name()}, in {scope.get_name()}"


def borrowed(program, programs):
    """What is taken from another program that does not have it."""
    modules = {}
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import):
            modules.update({alias.asname or alias.name: alias.name for alias in node.names if alias.name in programs})
        if isinstance(node, ast.ImportFrom) and node.module in programs:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in programs[node.module].defined)
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            if node.attr not in programs[modules[node.value.id]].defined:
                yield f"{node.value.id}.{node.attr}, line {node.lineno}"


def lineage(node, program, programs):
    """The class and all that it derives from; None where one of them lies elsewhere."""
    found = [node]
    for base in node.bases:
        home, name = program, base
        if isinstance(base, ast.Attribute) and getattr(base.value, "id", None) in programs:
            home, name = programs[base.value.id], ast.Name(base.attr)
        imported = next((one for one in programs.values() if getattr(name, "id", None) in one.classes), program)
        home = home if getattr(name, "id", None) in home.classes else imported
        parent = home.classes.get(getattr(name, "id", None))
        more = lineage(parent, home, programs) if parent else None
        if more is None:
            return None
        found += more
    return found


def of_self(node, context):
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self":
            if isinstance(item.ctx, context):
                yield item


def members(node):
    """What an object of the class has by it."""
    found = {item.name for item in node.body if hasattr(item, "name")}
    found |= {item.attr for item in of_self(node, ast.Store)}
    assigned = [ast.walk(item) for item in node.body if isinstance(item, (ast.Assign, ast.AnnAssign))]
    return found | {item.id for items in assigned for item in items if isinstance(item, ast.Name)}


def own(program, programs):
    """What an object takes from itself and has not. A class that others derive from is looked at in them."""
    bases = [base for one in programs.values() for node in one.classes.values() for base in node.bases]
    parents = {getattr(base, "attr", getattr(base, "id", None)) for base in bases}
    for node in program.classes.values():
        classes = lineage(node, program, programs)
        # A subclass of the same name, as each program's Rank may be, is looked at itself.
        if classes is None or (node.name in parents and not node.bases) or "setattr" in ast.dump(node):
            continue
        has = set().union({"__class__", "__dict__"}, *map(members, classes))
        for item in (item for one in classes for item in of_self(one, ast.Load)):
            if item.attr not in has:
                yield f"self.{item.attr} in {node.name}, line {item.lineno}"


def main():
    paths = sorted(glob.glob(os.path.join(HERE, "*.py"))) + [os.path.join(HERE, "suite")]
    programs = {os.path.splitext(os.path.basename(path))[0]: Program(path) for path in paths}
    found = []
    for program in programs.values():
        for what in [*undefined(program), *borrowed(program, programs), *own(program, programs)]:
            found.append(f"{os.path.basename(program.path)}: no {what}")
    print("\n".join(found) or f"{len(programs)} programs: every name leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
