"""Puts a mutant's code in the place of the code that runs, or into a module that is still to be imported."""

from __future__ import annotations

import functools
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mutation.operators import CORE, Mutant, changed, sources


def compiled(mutant: Mutant) -> CodeType:
    return compile(changed(sources()[mutant.module], mutant), str(CORE / mutant.module), "exec")


def name_of(module: str) -> str:
    """`cutwater.core.protocol.commit` of `protocol/commit.py`."""
    return "cutwater.core." + module.removesuffix(".py").replace("/", ".")


def swap(mutant: Mutant) -> bool:
    """Whether the function that is changed could be given other code; of what runs at an import it cannot."""
    running = sys.modules.get(name_of(mutant.module))
    if running is None or not mutant.scope:
        return False
    function = _found(running, mutant.scope.split("."))
    code = _code(compiled(mutant), mutant.scope.split("."))
    if function is None or code is None or function.__code__.co_freevars != code.co_freevars:
        return False
    if any(isinstance(one, CodeType) and not one.co_name.startswith("<") for one in code.co_consts):
        return False  # it makes functions, and has made some at the import
    function.__code__ = code
    return True


def _found(owner: Any, path: list[str]) -> FunctionType | None:
    for name in path:
        owner = vars(owner).get(name) if isinstance(owner, type | ModuleType) else None
    if isinstance(owner, property):
        owner = owner.fget
    elif isinstance(owner, functools.cached_property):
        owner = owner.func
    elif isinstance(owner, classmethod | staticmethod):
        owner = owner.__func__
    if hasattr(owner, "cache_clear"):
        owner.cache_clear()
    while hasattr(owner, "__wrapped__"):
        owner = owner.__wrapped__
    return owner if isinstance(owner, FunctionType) else None


def _code(code: CodeType, path: list[str]) -> CodeType | None:
    for name in path:
        named = [one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name]
        if len(named) != 1:
            return None  # overloads, or a setter beside its property
        code = named[0]
    return code


def import_as(mutant: Mutant) -> None:
    """The module, when it is imported, is the mutant."""
    file, real = str(CORE / mutant.module), SourceFileLoader.get_code
    code = compiled(mutant)

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        return code if self.path == file else real(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
