"""Mutants: every place of a module that one of some hand-picked operators can change.

Left out, because no test should repeat them: texts (and what is put into them), annotations, docstrings,
decorators, and numbers that a module names in capitals, like a time-out or a table of versions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

CORE = Path(__file__).parents[2] / "services/cutwater/core"

_FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TEXT_CALLS = {"join", "format", "warning", "info", "Field", "replace_text"}


@dataclass(frozen=True)
class Mutant:
    """One change of one place."""

    module: str
    """Path below core/: `protocol/commit.py`."""
    line: int
    """From 1."""
    what: str
    """The operator and what stands there now: `== for !=: state.last is None`."""
    scope: str
    """The function that it is in, with its classes: `SignalState.position`; empty where it runs at the import."""
    function: int
    """The first line of that function, its decorators included; 0 at the import."""
    name: str
    """Stays as long as the function's text does."""


Change = Callable[[], None]
_Found = tuple[Mutant, Change]


def mutants(source: str, module: str) -> list[Mutant]:
    """All of one module, in the order of its text."""
    return [one for one, _ in _Walk(module).all(ast.parse(source))]


def changed(source: str, mutant: Mutant) -> ast.Module:
    """The module's tree with the mutant's change."""
    tree = ast.parse(source)
    change = next(change for one, change in _Walk(mutant.module).all(tree) if one == mutant)
    change()
    return ast.fix_missing_locations(tree)


@cache
def sources() -> dict[str, str]:
    """Module → text, as it was when it was first asked for: somebody may edit while a run goes on."""
    return {str(one.relative_to(CORE)): one.read_text(encoding="utf-8") for one in sorted(CORE.rglob("*.py"))}


class _Walk:
    def __init__(self, module: str) -> None:
        self._module = module
        self._seen: dict[tuple[str, str], int] = {}

    def all(self, tree: ast.Module) -> Iterator[_Found]:
        return self._body(tree, _Place([]))

    def _body(self, node: ast.AST, place: _Place) -> Iterator[_Found]:
        for child in ast.iter_child_nodes(node):
            yield from self._node(child, node, place)

    def _node(self, node: ast.AST, parent: ast.AST, place: _Place) -> Iterator[_Found]:
        if _left_out(node, parent):
            return
        for what, change in _changes(node, parent):
            yield self._mutant(node, what, place), change
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in _defaults(node):
                yield from self._node(part, node, place)
            for part in node.body:
                yield from self._node(part, node, place.within(node))
            return
        yield from self._body(node, place)

    def _mutant(self, node: ast.AST, what: str, place: _Place) -> Mutant:
        scope = ".".join(place.names) if place.function else ""
        at = self._seen[scope, what] = self._seen.get((scope, what), -1) + 1
        name = sha256(f"{self._module} {scope} {what} {at}".encode()).hexdigest()[:12]
        return Mutant(self._module, getattr(node, "lineno", 1), what, scope, place.function, name)


class _Place(NamedTuple):
    """The function that a node is in, with its classes; no deeper."""

    names: list[str]
    function: int = 0

    def within(self, node: ast.FunctionDef | ast.ClassDef) -> _Place:
        if self.function:
            return self
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return _Place([*self.names, node.name], first if isinstance(node, ast.FunctionDef) else 0)


def _defaults(node: ast.FunctionDef | ast.ClassDef) -> list[ast.expr]:
    if isinstance(node, ast.ClassDef):
        return []
    return [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]


def _left_out(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and isinstance(parent, ast.Module):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return ast.unparse(target).isupper() and node.value is not None and _is_data(node.value)
    if isinstance(node, ast.Call) and _called(node) in _TEXT_CALLS:
        return True
    if isinstance(parent, ast.AnnAssign):
        return node is parent.annotation
    return isinstance(parent, ast.arg)


_DATA = (ast.Constant, ast.Name, ast.List, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Starred, ast.GeneratorExp)
_PARTS = (ast.operator, ast.unaryop, ast.expr_context, ast.comprehension)


def _is_data(node: ast.expr) -> bool:
    """Numbers, lists and tables of them: what somebody has chosen, and nothing that is decided."""
    return all(isinstance(one, _DATA + _PARTS) for one in ast.walk(node))


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BoolOp):
        yield from _joined(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"no not: {ast.unparse(node)}", _put(parent, node, node.operand)
    elif isinstance(node, ast.BinOp):
        yield from _calculated(node)
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
        told = ast.unparse(node.test)
        yield f"the other branch: {told}", _put(node, node.test, ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        other = _CALLED[node.func.id]
        yield f"{other} for {node.func.id}: {ast.unparse(node)}", _set(node.func, "id", other)
    elif isinstance(node, ast.stmt):
        yield from _deleted(node, parent)


def _compared(node: ast.Compare) -> Iterator[tuple[str, Change]]:
    for at, now in enumerate(node.ops):
        for other in _FLIPPED[type(now)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield f"{_sign(ops[at])} for {_sign(now)}: {ast.unparse(node)}", _set(node, "ops", ops)


def _joined(node: ast.BoolOp) -> Iterator[tuple[str, Change]]:
    other, told = (ast.Or() if isinstance(node.op, ast.And) else ast.And()), ast.unparse(node)
    yield f"and/or: {told}", _set(node, "op", other)
    neutral = ast.Constant(isinstance(node.op, ast.And))
    for at, operand in enumerate(node.values):
        values = [neutral, *node.values[:at], *node.values[at + 1 :]]
        yield f"without {ast.unparse(operand)}: {told}", _set(node, "values", values)


def _calculated(node: ast.BinOp) -> Iterator[tuple[str, Change]]:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    if any(isinstance(one, texts) or _is_text(one) for one in (node.left, node.right)):
        return
    other = _CALCULATED.get(type(node.op))
    if other is not None:
        yield f"{_sign(other())} for {_sign(node.op)}: {ast.unparse(node)}", _set(node, "op", other())


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _constant(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    if isinstance(node.value, bool):
        yield f"{not node.value} for {node.value}", _set(node, "value", not node.value)
    elif isinstance(node.value, int):
        other = node.value + 1
        yield f"{other} for {node.value}", _set(node, "value", other)


def _deleted(node: ast.stmt, parent: ast.AST) -> Iterator[tuple[str, Change]]:
    """A call, a raise, a leap, a change of what is kept elsewhere. A name that is missing fails anywhere."""
    kept = isinstance(node, ast.Assign) and not all(
        isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets
    )
    is_text = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)
    simple = ast.Expr | ast.Raise | ast.Continue | ast.Break | ast.AugAssign | ast.Assign | ast.Delete
    if isinstance(node, simple) and not kept and not is_text:
        yield f"deleted: {ast.unparse(node).splitlines()[0]}", _put(parent, node, ast.Pass())


def _sign(node: ast.AST) -> str:
    if isinstance(node, ast.cmpop):
        return ast.unparse(ast.Compare(ast.Name("a"), [node], [ast.Name("b")]))[2:-2]
    return ast.unparse(ast.BinOp(ast.Name("a"), node, ast.Name("b")))[2:-2]  # type: ignore[arg-type]


def _set(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _put(parent: ast.AST, node: ast.AST, other: ast.AST) -> Change:
    """Another node in the place of one."""

    def change() -> None:
        ast.copy_location(other, node)
        for field, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, field, other)
            elif isinstance(value, list):
                value[:] = [other if one is node else one for one in value]

    return change
