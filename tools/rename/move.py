#!/usr/bin/env python3
"""Move the files of a Cutwater tree into folders, and rewrite every reference. See README beside this file.

    .venv/bin/python tools/rename/move.py CLONE [--check]

The mapping tables are data/*.map. A file without a mapping stops the run before anything is changed.
"""

from __future__ import annotations

import ast
import io
import json
import os
import posixpath
import re
import subprocess
import sys
import time
import tokenize
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
MODULES_MAX, TEST_FILES_MAX = 14, 40
ROOTS = ("services/", "spark/", "tests/services/", "tests/core/", "tests/", "")  # what stands in front of a module's name, before
NEW_ROOTS = ("services/", "spark/", "tests/", "")
TEXT = {".md", ".toml", ".yml", ".yaml", ".json", ".sh", ".rs", ".avsc", ".html", ".Dockerfile", ".java", ".properties", ""}
NO_MODULE = {("services/cutwater/client/committed.py", "changelog"), ("services/cutwater/client/committed.py", "output")}
MODULE = {("services/cutwater/adapters/fetching.py", "batches")}
"""What a word in backquotes is, where the code's own names do not tell."""
LEFT_ALONE = {"requirements.lock", "LICENSE"}


# ---------------------------------------------------------------- tables


def rows(name: str):
    for line in (DATA / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def load_maps():
    files: dict[str, str] = {}  # old path -> new path
    stays: list[str] = []
    base = ""
    for line in rows("product.map"):
        if line.startswith("["):
            base = line.strip("[]")
            continue
        old, new = line.split()
        target = old if new == "." else new
        files[f"{base}/{old}.py"] = posixpath.normpath(f"{base}/{target}.py")
    for line in rows("tests.map"):
        old, new = line.split()
        if old == "stay":
            stays.append(f"tests/{new}/")
            continue
        files[f"tests/{old}.py"] = f"tests/{old if new == '.' else new}.py"
    for line in rows("files.map"):
        old, new = line.split()
        files[old] = new
    packages = {}
    for line in rows("packages.map"):
        where, _, text = line.partition(" ")
        packages[where] = text
    return files, stays, packages


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout


def module_of(path: str, roots=ROOTS) -> str:
    for one in roots:
        if path.startswith(one):
            name = path[len(one) : -3].replace("/", ".")
            return name[: -len(".__init__")] if name.endswith(".__init__") else name
    raise AssertionError(path)


class Plan:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.files, self.stays, self.packages = load_maps()
        self.tracked = git(root, "ls-files").splitlines()
        self.python = [one for one in self.tracked if one.endswith(".py")]
        self.moves = {old: new for old, new in self.files.items() if old in set(self.tracked) and old != new}
        self.new_path = {one: self.moves.get(one, one) for one in self.tracked}
        self.modules = {module_of(one): module_of(self.new_path[one], NEW_ROOTS) for one in self.python}
        self.changed = {old: new for old, new in self.modules.items() if old != new}
        self.old_modules = set(self.modules)
        self.helper_names = {
            module_of(one) for one in self.python if one.startswith("tests/") and one.count("/") <= 2
        } & {old for old in self.modules if "." not in old}

    def problems(self) -> list[str]:
        said = []
        have = set(self.tracked)
        for one in self.python:
            if not one.startswith(("services/", "spark/", "benchmarks/", "tests/")):
                continue
            if one not in self.files and not any(one.startswith(s) for s in self.stays):
                said.append(f"no mapping: {one}")
        targets = defaultdict(list)
        for one in self.tracked:
            targets[self.new_path[one]].append(one)
        said += [f"two files become {new}: {olds}" for new, olds in targets.items() if len(olds) > 1]
        for one in self.files:
            if one not in have:
                print(f"note: the table names {one}, which is not there", file=sys.stderr)
        count: dict[str, int] = defaultdict(int)
        for one in self.python:
            new = self.new_path[one]
            if not new.endswith("__init__.py"):
                count[posixpath.dirname(new)] += 1
        for folder, number in sorted(count.items()):
            most = TEST_FILES_MAX if folder.startswith("tests") else MODULES_MAX
            if folder.startswith(("services", "spark", "benchmarks", "tests")) and number > most:
                said.append(f"{folder} would have {number} modules, more than {most}")
        names = defaultdict(list)
        for one in self.python:
            new = self.new_path[one]
            if new.startswith("tests/") and posixpath.basename(new).startswith("test_"):
                names[posixpath.basename(new)].append(one)
        said += [f"two tests would be called {name}: {olds}" for name, olds in names.items() if len(olds) > 1]
        if not self.moves:
            said.append("nothing to move: is this tree moved already?")
        return said


# ---------------------------------------------------------------- texts: docs, strings, comments


class Texts:
    """Rewrites names in any text."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.paths: dict[str, str] = {}
        for old, new in plan.moves.items():
            self.paths[old] = new
        # As people shorten them: core/commit.py, cutwater_spark/query.py
        self.short: dict[str, str] = {}
        for old, new in plan.moves.items():
            if old.startswith("services/cutwater/"):
                self.short[old[len("services/cutwater/") :]] = (
                    new[len("services/cutwater/") :] if new.startswith("services/cutwater/") else new
                )
            elif old.startswith("spark/"):
                self.short[old[len("spark/") :]] = new[len("spark/") :]
        self.bench = {
            old[len("benchmarks/") :]: new[len("benchmarks/") :]
            for old, new in plan.moves.items()
            if old.startswith("benchmarks/")
        }
        self.kept_bench = {one[len("benchmarks/") :] for one in plan.tracked if one.startswith("benchmarks/")}
        self.core = {
            old[len("services/cutwater/core/") :]: new[len("services/cutwater/core/") :]
            for old, new in plan.moves.items()
            if old.startswith("services/cutwater/core/")
        }
        self.test_names = {
            posixpath.basename(old): posixpath.basename(new)
            for old, new in plan.moves.items()
            if posixpath.basename(old).startswith("test_")
        }
        self.tops = {one.split(".")[1] for one in plan.modules if one.startswith("cutwater.") and "." in one}

    _DOTTED = re.compile(r"(?<![\w./-])(cutwater_spark|cutwater|benchmarks)((?:\.[A-Za-z_]\w*)+)")
    _PATH = re.compile(r"(?<![\w.-])(?:\.?/)?[\w.-]+(?:/[\w.-]+)+")
    _TEST_FILE = re.compile(r"(?<![\w/])test_\w+\.py\b")
    _TICKED = re.compile(r"`([a-z_]+)\.([a-z_]\w*)((?:\.\w+)*)")
    _FROM = re.compile(r"\bfrom ([A-Za-z_][\w.]*) import ([A-Za-z_]\w*)(?! as\b)(?!\w)")
    _FROM_OR_DOTTED = re.compile(f"{_FROM.pattern}|{_DOTTED.pattern}")
    _FOLDERS = (
        (re.compile(r"\btests/core(?![\w/])"), "tests/unit/core"),
        (re.compile(r"\btests/services(?!\w)(?!/\w)"), "tests/broker"),
    )

    def dotted(self, name: str) -> str:
        """The new name of the longest known beginning."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            head = ".".join(parts[:length])
            if head in self.plan.modules:
                rest = parts[length:]
                if rest:
                    rest[0] = RENAMED[head].get(rest[0], rest[0])
                return ".".join([self.plan.modules[head], *rest])
        return name

    def rewrite(self, text: str, path: str, in_python: bool = False) -> str:
        plan = self.plan
        if in_python:  # in one pass: a new name may begin like an old one
            text = self._FROM_OR_DOTTED.sub(self._from_or_dotted, text)
        else:
            text = self._DOTTED.sub(lambda found: self.dotted(found[0]), text)
        text = self._PATH.sub(lambda found: self._path(found[0], path), text)
        text = self._TEST_FILE.sub(lambda found: self.test_names.get(found[0], found[0]), text)
        text = self._TICKED.sub(self._ticked, text)
        for folder, new in self._FOLDERS:
            text = folder.sub(new, text)
        if path.startswith("tests/mutation/"):
            text = re.sub(r"(?<![\w/])[a-z_]+\.py\b", lambda found: self.core.get(found[0], found[0]), text)
        return text

    def _from_or_dotted(self, found: re.Match[str]) -> str:
        return self._from(found) if found[1] else self.dotted(found[0])

    def _from(self, found: re.Match[str]) -> str:
        module, name = found[1], found[2]
        plan, full = self.plan, f"{found[1]}.{found[2]}"
        if full in plan.changed:
            parent, _, stem = plan.modules[full].rpartition(".")
            return f"from {parent} import {stem}" + ("" if stem == name else f" as {name}")
        if module in plan.changed:
            return f"from {plan.modules[module]} import {name}"
        return found[0]

    def _path(self, token: str, path: str) -> str:
        end = ""
        while token and token[-1] in ".-":
            token, end = token[:-1], token[-1] + end
        lead = re.match(r"\.?/", token)
        head, bare = (lead[0], token[lead.end() :]) if lead else ("", token)
        up = ""
        while bare.startswith("../"):
            up, bare = up + "../", bare[3:]
        if bare in self.paths:
            new = self.paths[bare]
        elif path.startswith("benchmarks/") and bare in self.bench:
            new = self.bench[bare]
        elif path.startswith("benchmarks/") and bare in self.kept_bench:
            new = bare
        elif bare in self.short:
            new = self.short[bare]
        else:
            return token + end
        return head + up + new + end

    def _ticked(self, found: re.Match[str]) -> str:
        if found[1] not in self.tops:
            return found[0]
        full = f"cutwater.{found[1]}.{found[2]}"
        if full not in self.plan.changed:
            return found[0]
        new = self.plan.modules[full]
        return "`" + new.removeprefix("cutwater.") + found[3]


# ---------------------------------------------------------------- Python files


class Scopes(ast.NodeVisitor):
    """Where names are bound: the chain of function scopes of each Name node."""

    def __init__(self, tree: ast.Module, ours: set[ast.AST]) -> None:
        self.ours = ours
        self.stack: list[set[str]] = []
        self.resolves_elsewhere: set[ast.AST] = set()
        self.class_level: list[set[str]] = []
        self.bound_anywhere: set[str] = set()
        self.module_binds = self._binds(tree.body)
        self.visit(tree)

    def _binds(self, body, args=None) -> set[str]:
        """Names bound in this scope (nested functions and classes are scopes of their own)."""
        out: set[str] = set()
        if args is not None:
            for one in [*args.posonlyargs, *args.args, *args.kwonlyargs]:
                out.add(one.arg)
            for one in (args.vararg, args.kwarg):
                if one:
                    out.add(one.arg)
        declared: set[str] = set()
        todo = list(body)
        while todo:
            node = todo.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                out.add(node.name)
                todo.extend(node.decorator_list)
                continue
            if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.NamedExpr):
                        out.add(inner.target.id)
                continue
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                declared |= set(node.names)
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                out.add(node.id)
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node not in self.ours:
                for alias in node.names:
                    out.add((alias.asname or alias.name).split(".")[0])
            if isinstance(node, ast.ExceptHandler) and node.name:
                out.add(node.name)
            if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
                out.add(node.name)
            if isinstance(node, ast.MatchMapping) and node.rest:
                out.add(node.rest)
            todo.extend(ast.iter_child_nodes(node))
        return out - declared

    def _function(self, node) -> None:
        for one in getattr(node, "decorator_list", []):
            self.visit(one)
        for one in [*node.args.defaults, *[d for d in node.args.kw_defaults if d]]:
            self.visit(one)
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg) and one.annotation:
                self.visit(one.annotation)
        if getattr(node, "returns", None):
            self.visit(node.returns)
        body = node.body if isinstance(node.body, list) else [node.body]
        binds = self._binds(body, node.args)
        self.bound_anywhere |= binds
        self.stack.append(binds)
        for one in body:
            self.visit(one)
        self.stack.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(one)
        binds = self._binds(node.body)
        self.bound_anywhere |= binds
        self.class_level.append(binds)
        for one in node.body:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                saved, self.class_level = self.class_level, []
                self.visit(one)
                self.class_level = saved
            else:
                self.visit(one)
        self.class_level.pop()

    def _comprehension(self, node) -> None:
        binds = {
            inner.id
            for gen in node.generators
            for inner in ast.walk(gen.target)
            if isinstance(inner, ast.Name)
        }
        self.bound_anywhere |= binds
        self.stack.append(binds)
        self.generic_visit(node)
        self.stack.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Name(self, node: ast.Name) -> None:
        if any(node.id in one for one in self.stack) or any(node.id in one for one in self.class_level):
            self.resolves_elsewhere.add(node)
        elif not self.stack and not self.class_level and node.id in self.module_binds:
            self.resolves_elsewhere.add(node)
        elif node.id in self.module_binds:
            self.resolves_elsewhere.add(node)


RENAMED: dict[str, dict[str, str]] = defaultdict(dict)
"""Old module -> the names in it that stand for other modules: old -> new."""


class PythonFile:
    def __init__(self, plan: Plan, texts: Texts, path: str, source: str) -> None:
        self.plan, self.texts, self.path, self.source = plan, texts, path, source
        self.tree = ast.parse(source)
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[tuple[int, int, str]] = []
        self.notes: list[str] = []

    def at(self, line: int, column: int) -> int:
        """The place of a node's position; columns of ast are bytes."""
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def span(self, node) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def bindings(self) -> None:
        """What names of modules become in this file; noted for those who reach into it."""
        self._imports()
        RENAMED[module_of(self.path)] = {old: new for old, new in self.chosen.items() if old != new}
        self.edits, self.notes = [], []

    def rewritten(self) -> str:
        self._imports()
        self._reached_into()
        taken = sorted(self.edits)
        self._tokens(taken)
        self._file_places()
        return self._applied()

    def _applied(self) -> str:
        out, at = [], 0
        for start, end, text in sorted(self.edits):
            assert start >= at, (self.path, start, self.source[start:end])
            out += [self.source[at:start], text]
            at = end
        return "".join([*out, self.source[at:]])

    # imports and the names that they bind

    def _imports(self) -> None:
        plan = self.plan
        renames: dict[str, tuple[str, str]] = {}  # bound name -> (new full module, its import nodes)
        nodes = [one for one in ast.walk(self.tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
        ours: set[ast.AST] = set()
        wanted: dict[str, str] = {}
        for node in nodes:
            for alias in node.names:
                full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                top = full if isinstance(node, ast.Import) else full
                if isinstance(node, ast.ImportFrom) and node.level:
                    raise SystemExit(f"{self.path}:{node.lineno}: a relative import")
                if top in plan.changed and not alias.asname:
                    if isinstance(node, ast.Import) and "." in alias.name:
                        raise SystemExit(f"{self.path}:{node.lineno}: import {alias.name} without 'as'")
                    wanted[alias.name] = plan.modules[top]
                    ours.add(node)
        used = {one.id for one in ast.walk(self.tree) if isinstance(one, ast.Name)}
        used |= {one.arg for one in ast.walk(self.tree) if isinstance(one, ast.arg)}
        used |= {
            one.name
            for one in ast.walk(self.tree)
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        for node in nodes:
            used |= {(one.asname or one.name).split(".")[0] for one in node.names}
        scopes = Scopes(self.tree, ours)
        chosen: dict[str, str] = {}
        for bound, full in wanted.items():
            parent, _, stem = full.rpartition(".")
            if stem == bound:
                chosen[bound] = bound
                continue
            options = [stem, f"{parent.rpartition('.')[2]}_{stem}", f"{stem}_module"]
            taken = (used - set(wanted)) | set(chosen.values()) | (set(wanted) & scopes.bound_anywhere)
            taken |= {one for one in wanted if one != bound and wanted[one].rpartition(".")[2] == one}
            name = next((one for one in options if one not in taken), None)
            if name is None:
                raise SystemExit(f"{self.path}: no name for {full}")
            chosen[bound] = name
            if name != stem:
                self.notes.append(f"{self.path}: {full} as {name}")
        self.chosen = chosen
        # a name that only becomes free by another renaming would be ambiguous: forbid swaps
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id in chosen and chosen[node.id] != node.id:
                if node not in scopes.resolves_elsewhere:
                    start, end = self.span(node)
                    self.edits.append((start, end, chosen[node.id]))
        for node in nodes:
            made = self._import(node, chosen)
            if made is not None:
                start, end = self.span(node)
                inside = self.source[start:end]
                comments = [
                    one.string
                    for one in tokenize.generate_tokens(io.StringIO(inside.replace("\n", "\n")).readline)
                    if one.type == tokenize.COMMENT
                ] if "#" in inside else []
                if comments:
                    raise SystemExit(f"{self.path}:{node.lineno}: a comment inside an import")
                indent = self.source[self.starts[node.lineno - 1] : start]
                if indent.strip():
                    joined = "; ".join(made)
                else:
                    joined = ("\n" + indent).join(made)
                self.edits.append((start, end, joined))

    def _import(self, node, chosen: dict[str, str]) -> list[str] | None:
        plan = self.plan
        if isinstance(node, ast.Import):
            if not any(one.name in plan.changed for one in node.names):
                return None
            out = []
            for one in node.names:
                new = plan.modules.get(one.name, one.name)
                parent, _, stem = new.rpartition(".")
                if one.name not in plan.changed:
                    out.append(f"import {one.name}" + (f" as {one.asname}" if one.asname else ""))
                elif one.asname or parent:
                    name = one.asname or chosen[one.name]
                    out.append(
                        (f"from {parent} import {stem}" if parent else f"import {stem}")
                        + ("" if name == stem else f" as {name}")
                    )
                else:
                    out.append(f"import {new}")
            return out
        full = {one.name: f"{node.module}.{one.name}" for one in node.names}
        if node.module not in plan.changed and not any(one in plan.changed for one in full.values()):
            return None
        groups: dict[str, list[str]] = {}
        for one in node.names:
            is_module = full[one.name] in plan.modules
            # `from cutwater.client import committed` may mean the function that the package hands out.
            if is_module and full[one.name] in plan.changed:
                parent, _, stem = plan.modules[full[one.name]].rpartition(".")
                name = one.asname or chosen[one.name]
                if not parent:
                    groups.setdefault("", []).append(stem)
                    continue
                groups.setdefault(parent, []).append(stem if name == stem else f"{stem} as {name}")
            elif is_module:
                groups.setdefault(node.module, []).append(one.name + (f" as {one.asname}" if one.asname else ""))
            else:
                groups.setdefault(plan.modules.get(node.module, node.module), []).append(
                    one.name + (f" as {one.asname}" if one.asname else "")
                )
        return [f"from {module} import {', '.join(names)}" for module, names in groups.items()]

    # names in other modules that are modules: tests put something in their place

    def _reached_into(self) -> None:
        known: dict[str, str] = {}  # name here -> old module
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for one in node.names:
                    if f"{node.module}.{one.name}" in self.plan.modules:
                        known[one.asname or one.name] = f"{node.module}.{one.name}"
            elif isinstance(node, ast.Import):
                for one in node.names:
                    if one.name in self.plan.modules and (one.asname or "." not in one.name):
                        known[one.asname or one.name] = one.name
        for one in ast.walk(self.tree):  # a parameter of that name is any module
            if isinstance(one, ast.arg):
                known.pop(one.arg, None)
        every: dict[str, set[str]] = defaultdict(set)
        for module, names in RENAMED.items():
            for old, new in names.items():
                if module.startswith("cutwater."):
                    every[old].add(new)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                new = RENAMED[known.get(node.value.id, "")].get(node.attr)
                if new:
                    end = self.span(node)[1]
                    self.edits.append((end - len(node.attr), end, new))
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Name):
                continue
            names = RENAMED[known.get(node.args[0].id, "")]
            if getattr(node.func, "id", "") == "put" and node.args[0].id not in known:  # a helper's parameter
                names = {old: next(iter(new)) for old, new in every.items() if len(new) == 1}
            for word in node.keywords:
                if word.arg in names:
                    start = self.span(word)[0]
                    self.edits.append((start, start + len(word.arg), names[word.arg]))
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value in names:
                start, end = self.span(node.args[1])
                self.edits.append((start, end, f'"{names[node.args[1].value]}"'))

    # strings and comments

    def _tokens(self, taken: list[tuple[int, int, str]]) -> None:
        kinds = {tokenize.STRING, tokenize.COMMENT}
        if hasattr(tokenize, "FSTRING_MIDDLE"):
            kinds.add(tokenize.FSTRING_MIDDLE)
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type not in kinds:
                continue
            start = self.starts[token.start[0] - 1] + token.start[1]
            end = self.starts[token.end[0] - 1] + token.end[1]
            if any(a < end and start < b for a, b, _ in taken):
                self._fstring(token, start, end)
                continue
            old = self.source[start:end]
            said = token.type == tokenize.COMMENT or start in self._docstrings()
            new = self.texts.rewrite(self._neighbours(old) if said else old, self.path, in_python=True)
            if new != old:
                self.edits.append((start, end, new))

    _NEIGHBOUR = re.compile(r"`([a-z_]+)((?:\.\w+)?)`")

    def _neighbours(self, text: str) -> str:
        """Modules of the same package that a docstring names by their last word alone."""
        if not self.path.startswith(("services/", "spark/")):
            return text
        own = module_of(self.path)
        package = own if self.path.endswith("__init__.py") else own.rpartition(".")[0]

        def name(found: re.Match[str]) -> str:
            full = f"{package}.{found[1]}"
            if full not in self.plan.changed or (self.path, found[1]) in NO_MODULE:
                return found[0]
            if found[1] in self._identifiers() and (self.path, found[1]) not in MODULE:
                return found[0]
            new, here = self.plan.modules[full], self.plan.modules[own].rpartition(".")[0]
            parent, _, stem = new.rpartition(".")
            shown = stem if parent == here else f"{parent.rpartition('.')[2]}.{stem}"
            return f"`{shown}{found[2]}`"

        return self._NEIGHBOUR.sub(name, text)

    def _docstrings(self) -> set[int]:
        """Where texts begin that stand alone."""
        if not hasattr(self, "_docs"):
            self._docs = {
                self.span(one)[0]
                for one in ast.walk(self.tree)
                if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            }
        return self._docs

    def _identifiers(self) -> set[str]:
        if not hasattr(self, "_ids"):
            kinds = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr", ast.keyword: "arg", ast.FunctionDef: "name"}
            self._ids = {getattr(one, kinds[type(one)]) for one in ast.walk(self.tree) if type(one) in kinds}
        return self._ids

    def _fstring(self, token, start: int, end: int) -> None:
        """A string with a renamed name inside of its braces: the text between the edits."""
        inside = sorted(one for one in self.edits if start <= one[0] and one[1] <= end)
        at = start
        for a, b, _ in [*inside, (end, end, "")]:
            old = self.source[at:a]
            new = self.texts.rewrite(old, self.path, in_python=True)
            if new != old:
                self.edits.append((at, a, new))
            at = b

    # places beside the file

    _PLACE = re.compile(
        r"Path\(__file__\)(?P<resolve>\.resolve\(\))?"
        r"(?P<chain>(?:\.parents\[\d+\]|\.parent|\.with_name\(\"[^\"]+\"\))+)"
    )

    def _file_places(self) -> None:
        new = self.plan.new_path[self.path]
        if new == self.path and not (self.path.startswith("tests/")):
            return
        for found in self._PLACE.finditer(self.source):
            target = self._target(found["chain"])
            moved = {"tests/services": "tests", "tests/core": "tests/unit/core"}.get(target)
            wanted = moved or self.plan.new_path.get(target, target)
            if new == self.path and wanted == target:
                continue
            made = self._expression(new, wanted, found["chain"] if new == self.path else "")
            text = f"Path(__file__){found['resolve'] or ''}{made}"
            if text != found[0]:
                self.edits = [one for one in self.edits if not (one[0] < found.end() and found.start() < one[1])]
                self.edits.append((found.start(), found.end(), text))

    def _target(self, chain: str) -> str:
        at = self.path
        for step in re.findall(r"\.parents\[(\d+)\]|\.(parent)\b|\.with_name\(\"([^\"]+)\"\)", chain):
            if step[0]:
                for _ in range(int(step[0]) + 1):
                    at = posixpath.dirname(at)
            elif step[1]:
                at = posixpath.dirname(at)
            else:
                at = posixpath.join(posixpath.dirname(at), step[2])
        return at

    def _expression(self, new: str, target: str, same: str) -> str:
        if posixpath.dirname(new) == posixpath.dirname(target) and target != "":
            base = posixpath.basename(target)
            if posixpath.dirname(new) != target:
                return f'.with_name("{base}")'
        folder, depth = posixpath.dirname(new), 0
        while not (target == folder or folder == "" or target.startswith(folder + "/")):
            folder, depth = posixpath.dirname(folder), depth + 1
        made = ".parent" if depth == 0 else f".parents[{depth}]"
        rest = target[len(folder) :].lstrip("/")
        return made + (f' / "{rest}"' if rest else "")


# ---------------------------------------------------------------- special places


def table_patches():
    """(path after the move, old, new, how often at least): literal texts that no rule finds."""
    namespace: dict = {}
    exec((DATA / "patches.py").read_text(), namespace)  # noqa: S102
    return namespace["PATCHES"]


def verbs(plan: Plan, text: str) -> str:
    """The table of the verbs' modules."""
    tree = ast.parse(text)
    table = next(
        one.value
        for one in tree.body
        if isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == "VERBS"
    )
    lines = text.splitlines(keepends=True)
    edits = []
    for value in table.values:
        first = value.elts[0]
        new = plan.modules.get(f"cutwater.cli.{first.value}")
        if new is None:
            raise SystemExit(f"the verb table names cutwater.cli.{first.value}, which has no mapping")
        edits.append((first.lineno, first.col_offset, first.end_col_offset, new.removeprefix("cutwater.cli.")))
    for line, start, end, name in sorted(edits, reverse=True):
        old = lines[line - 1].encode()
        lines[line - 1] = (old[:start] + f'"{name}"'.encode() + old[end:]).decode()
    return "".join(lines)


def seconds(plan: Plan, text: str) -> str:
    known = json.loads(text)
    moved = {}
    for name, took in known.items():
        path, sep, rest = name.partition("::")
        moved[plan.new_path.get(path, path) + sep + rest] = took
    return json.dumps(dict(sorted(moved.items())), indent=0) + "\n"


def score(texts: Texts, text: str) -> str:
    told = json.loads(text)
    told["modules"] = dict(sorted((texts.core.get(name, name), both) for name, both in told["modules"].items()))
    told["alive"] = sorted([texts.core.get(one[0], one[0]), *one[1:]] for one in told["alive"])
    return json.dumps(told, indent=1) + "\n"


LINE_MAX = 115


def docstring_lines(text: str) -> set[int]:
    """The lines of texts that stand alone: docstrings, of attributes too."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= set(range(node.lineno, node.end_lineno + 1))
    return found


def wrapped(text: str) -> str:
    """Lines that longer names have made too long: of docstrings, of comments, and of tables of texts."""
    while True:
        lines = text.split("\n")
        long = [at for at, line in enumerate(lines) if len(line) > LINE_MAX and "noqa" not in line]
        if not long:
            return text
        docs = docstring_lines(text)
        for at in long:
            line = lines[at]
            indent = line[: len(line) - len(line.lstrip())]
            entry = re.fullmatch(r'(\s+)("[^"]*"): ("[^"]*"),', line)
            mark = "# " if line.lstrip().startswith("# ") else ""
            if entry:
                lines[at] = f"{entry[1]}{entry[2]}: (\n{entry[1]}    {entry[3]}\n{entry[1]}),"
                break
            if not mark and at + 1 not in docs:
                continue
            body = line[len(indent) + len(mark) :]
            room = LINE_MAX - len(indent) - len(mark)
            cut = body.rfind(" ", 0, room + 1)
            while cut > 0 and body[:cut].count("`") % 2:  # not inside of a name
                cut = body.rfind(" ", 0, cut)
            if cut <= 0:
                continue
            first, rest = body[:cut], body[cut + 1 :]
            lines[at] = indent + mark + first
            following = lines[at + 1] if at + 1 < len(lines) else ""
            flows = following.startswith(indent + mark) and following[len(indent + mark) :][:1].strip()
            listed = re.match(r"\s*(#\s*)?([-*|]|\d+\.|\"{3})", following)
            own = at + 2 in docs if not mark else following.lstrip().startswith("# ")
            ends = line.rstrip().endswith('"""') and not mark
            if flows and own and not listed and not ends:
                lines[at + 1] = f"{indent}{mark}{rest} {following[len(indent + mark):]}"
            else:
                lines.insert(at + 1, indent + mark + rest)
            break
        else:
            return text
        text = "\n".join(lines)


# ---------------------------------------------------------------- verification


def unresolved(root: Path) -> list[str]:
    """Imports of our own modules that name nothing, found without importing anything."""
    tracked = [one for one in git(root, "ls-files", "--cached", "--others", "--exclude-standard").splitlines() if one.endswith(".py")]
    names: dict[str, set[str]] = {}
    for path in tracked:
        name = module_of(path, NEW_ROOTS)
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {(one.asname or one.name).split(".")[0] for one in node.names}
        names[name] = found
    parents = {one.rpartition(".")[0] for one in names if "." in one}
    ours = {one.split(".")[0] for one in names}
    said = []
    for path in tracked:
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ours:
                for one in node.names:
                    if f"{node.module}.{one.name}" in names or one.name in names.get(node.module, ()):
                        continue
                    if node.module.split(".")[0] in ("view", "docs") and node.module not in names:
                        continue
                    said.append(f"{path}:{node.lineno}: from {node.module} import {one.name}")
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_"):
                if f"{posixpath.dirname(path)}/{node.module}.py" not in tracked:
                    said.append(f"{path}:{node.lineno}: from {node.module}")
            elif isinstance(node, ast.Import):
                for one in node.names:
                    if one.name.split(".")[0] in ours and one.name not in names and one.name not in parents:
                        said.append(f"{path}:{node.lineno}: import {one.name}")
    for path in tracked:
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        known: dict[str, str] = {}
        other: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for one in node.names:
                    full = f"{node.module}.{one.name}"
                    (known.__setitem__(one.asname or one.name, full) if full in names else other.add(one.asname or one.name))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                other.add(node.id)
            elif isinstance(node, ast.arg):
                other.add(node.arg)
        known = {name: full for name, full in known.items() if name not in other}
        for node in ast.walk(tree):
            wanted = None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                wanted = (node.value.id, [node.attr])
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
                words = [one.arg for one in node.keywords if one.arg] if getattr(node.func, "id", "") == "put" else []
                if len(node.args) > 2 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
                    words.append(node.args[1].value)
                wanted = (node.args[0].id, words)
            if wanted and wanted[0] in known:
                full = known[wanted[0]]
                for word in wanted[1]:
                    if word.isidentifier() and not word.startswith("__") and word not in names[full] and f"{full}.{word}" not in names:
                        said.append(f"{path}:{node.lineno}: {full} has no {word}")
    return said


def leftovers(root: Path, plan: Plan, texts: Texts) -> list[str]:
    """Old names that still stand somewhere."""
    said = []
    gone_paths = set(plan.moves) - set(plan.new_path.values())
    for path in git(root, "ls-files").splitlines():
        if path.endswith((".lock", ".png")) or path in LEFT_ALONE or not (root / path).exists():
            continue
        text = (root / path).read_text(encoding="utf-8", errors="ignore")
        for number, line in enumerate(text.splitlines(), 1):
            for found in re.finditer(r"tests/(?:services|core)\b[\w/.]*", line):
                said.append(f"{path}:{number}: {found[0]}")
            for old in re.findall(r"(?<![\w.])(?:[\w-]+/)+\w+\.py", line):
                if old in gone_paths:
                    said.append(f"{path}:{number}: {old}")
    return said


def linter(root: Path) -> list[str]:
    """Write the contracts of import-linter: the rules, and the imports that do not keep them yet."""
    for one in (Path(sys.executable), root / ".venv/bin/python"):
        asked = [str(one), str(HERE / "lint.py")]
        if one.exists() and subprocess.run([str(one), "-c", "import grimp"], capture_output=True).returncode == 0:
            path = os.pathsep.join([str(root / "services"), str(root / "spark")])
            env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(asked, cwd=root, env=env, capture_output=True, text=True)
            if done.returncode:
                return [f"lint.py: {done.stderr[-500:]}"]
            if done.stderr:
                print(done.stderr, file=sys.stderr)
            config = root / "pyproject.toml"
            head, sep, _ = config.read_text(encoding="utf-8").partition("[tool.importlinter]\n")
            config.write_text(head + done.stdout, encoding="utf-8")
            return [] if sep else ["pyproject.toml had no [tool.importlinter] at its end"]
    return ["no Python with grimp: the contracts of import-linter are not written"]


# ---------------------------------------------------------------- all of it


def main(words: list[str]) -> int:
    root = Path(words[0]).resolve()
    began = time.monotonic()
    if git(root, "status", "--porcelain", "--untracked-files=no").strip():
        raise SystemExit("the tree has changes that are not committed")
    plan = Plan(root)
    if said := plan.problems():
        print("\n".join(said), file=sys.stderr)
        return 2
    if "--check" in words:
        print(f"every file has a mapping: {len(plan.moves)} would move")
        return 0
    texts = Texts(plan)
    patches = table_patches()

    # 1. texts, as they will be
    made: dict[str, str] = {}
    notes: list[str] = []
    python: dict[str, PythonFile] = {}
    for path in plan.python:
        if source := (root / path).read_text(encoding="utf-8"):
            python[path] = PythonFile(plan, texts, path, source)
            python[path].bindings()
    for path in plan.tracked:
        file = root / path
        if path in LEFT_ALONE or path.endswith(".lock") or file.is_symlink() or path.endswith(".lock.toml"):
            continue
        if path.endswith(".py"):
            one = python.get(path)
            if one is None:
                continue
            source, new = one.source, one.rewritten()
            notes += one.notes
        elif file.suffix in TEXT:
            try:
                source = file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if path == "tests/seconds.json":
                new = seconds(plan, source)
            elif path == "tests/mutation/score.json":
                new = score(texts, source)
            else:
                new = texts.rewrite(source, path)
        else:
            continue
        if path == "services/cutwater/cli/verbs.py":
            new = verbs(plan, new)
        if new != source:
            made[path] = new

    # 2. git mv
    inverse = {new: old for old, new in plan.new_path.items()}
    for old, new in plan.moves.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
    waiting = dict(plan.moves)
    while waiting:  # a file whose place is still taken by another one waits for it
        ready = {old: new for old, new in waiting.items() if not (root / new).exists()}
        if not ready:
            raise SystemExit(f"files in each other's way: {waiting}")
        by_folder: dict[str, list[str]] = defaultdict(list)
        for old, new in ready.items():
            if posixpath.basename(old) == posixpath.basename(new):
                by_folder[posixpath.dirname(new)].append(old)
            else:
                subprocess.run(["git", "mv", old, new], cwd=root, check=True)
        for folder, olds in by_folder.items():
            subprocess.run(["git", "mv", *olds, folder + "/"], cwd=root, check=True)
        waiting = {old: new for old, new in waiting.items() if old not in ready}
    for path, text in made.items():
        (root / plan.new_path[path]).write_text(text, encoding="utf-8")

    # 3. packages
    have = {posixpath.dirname(one) for one in plan.new_path.values() if one.endswith(".py")}
    wanted = set()
    for folder in have:
        while folder.startswith(("services/cutwater/", "spark/cutwater_spark/", "benchmarks/", "docs/_generate", "tests/unit", "tests/broker", "tests/support")):
            wanted.add(folder)
            folder = posixpath.dirname(folder)
    lacking = []
    for folder in sorted(wanted):
        file = root / folder / "__init__.py"
        if file.exists():
            continue
        if folder in plan.packages:
            text = plan.packages[folder]
        elif folder.startswith("tests/unit"):
            what = folder.removeprefix("tests/unit").strip("/")
            text = f"Tests of {what} that need neither broker nor Spark." if what else "Tests that need neither a broker nor Spark: the tree is that of the code."
        elif folder.startswith("tests/broker"):
            what = folder.removeprefix("tests/broker").strip("/")
            text = f"Tests of {what} on a real broker." if what else "Tests on a real broker: the tree is that of the code."
        else:
            lacking.append(folder)
            continue
        file.write_text(f'"""{text}"""\n', encoding="utf-8")
    if lacking:
        raise SystemExit(f"packages without a docstring in packages.map: {lacking}")

    # 4. special places
    failed = []
    for path, old, new, *least in patches:
        file = root / path
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if old is None:
            file.write_text(text + new, encoding="utf-8")
            continue
        count = text.count(old)
        if least and least[0] == 0 and not count:
            print(f"note: {path}: {old!r} is not there", file=sys.stderr)
            continue
        if count < (least[0] if least else 1):
            failed.append(f"{path}: {old!r} is not there")
            continue
        file.write_text(text.replace(old, new), encoding="utf-8")
    for file in sorted((root / "tests/docs").glob("test_benchmark*.py")):
        text = file.read_text(encoding="utf-8")
        new = re.sub(
            r'(?<=\bpart\(")([\w.]+)(?="\))',
            lambda found: plan.modules.get(f"benchmarks.{found[1]}", f"benchmarks.{found[1]}").removeprefix("benchmarks."),
            text,
        )
        if new != text:
            file.write_text(new, encoding="utf-8")
    for folder in ("tests/services", "tests/core", "benchmarks/handing_over"):
        left = [one for one in (root / folder).rglob("*") if one.is_file() and "__pycache__" not in one.parts]
        if left:
            failed.append(f"{folder} still holds {[str(one.relative_to(root)) for one in left]}")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)

    # 5. format, and what is derived
    tools = next((one for one in (Path(sys.executable).parent, root / ".venv/bin") if (one / "ruff").exists()), None)
    if tools is None:
        failed.append("no ruff: imports are not sorted")
    else:
        subprocess.run([tools / "ruff", "check", "--quiet", "--fix", "--select", "I", "."], cwd=root, check=False)
        subprocess.run([tools / "ruff", "format", "--quiet", "."], cwd=root, check=True)
        for path in git(root, "ls-files", "*.py").splitlines():
            text = (root / path).read_text(encoding="utf-8")
            if (new := wrapped(text)) != text:
                (root / path).write_text(new, encoding="utf-8")
        subprocess.run([tools / "ruff", "format", "--quiet", "."], cwd=root, check=True)
    failed += linter(root)
    page = "from mutation.score import PAGE, page, recorded; PAGE.write_text(page(recorded()), encoding='utf-8')"
    subprocess.run(
        [sys.executable, "-c", page], cwd=root, check=True, env={**os.environ, "PYTHONPATH": "tests", "PYTHONDONTWRITEBYTECODE": "1"}
    )
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)

    # 6. what is left
    nothing = unresolved(root)
    for title, lines in (
        ("patches that found nothing", failed),
        ("imports that name nothing", nothing),
        ("old names that still stand", leftovers(root, plan, texts)),
        ("modules imported under another name, since theirs is taken", notes),
    ):
        print(f"\n{title}: {len(lines)}")
        print("\n".join(f"  {one}" for one in lines))
    print(f"\n{len(plan.moves)} files moved, {len(made)} rewritten, in {time.monotonic() - began:.0f} s")
    return 1 if failed or nothing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
