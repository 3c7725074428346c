"""Finds the handler of a function, or says why there is none."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from nimbus._failure import Description, describe, utf8


class LoadError(Exception):
    """The function cannot be loaded; `description` is the `error` of Ready."""

    def __init__(self, description: Description) -> None:
        super().__init__(description["message"])
        self.description = description


class Handler:
    def __init__(self, function: Callable[..., Any], arguments: int, is_async: bool) -> None:
        self.function = function
        self.arguments = arguments  # 1: event, 2: state too, 3: context too
        self.is_async = is_async


def load(directory: str, handler: str) -> Handler:
    """`handler` names a file and what it defines: main.handle, shop/cart.handle or shop.cart.handle."""
    module, _, symbol = handler.replace("/", ".").rpartition(".")
    if not all(module.split(".")):
        raise _refused(ValueError(f"the handler {handler!r} does not name a file and a function, as main.handle does"))
    file = _file_of(directory, module)
    sys.path.insert(0, directory)
    _let_go_of_namesakes(directory)
    try:
        __import__(module)
    except BaseException as error:  # also of who calls sys.exit() here
        raise _refused(error, *_place_of(error, directory)) from None
    loaded = sys.modules[module]
    if getattr(loaded, "__file__", None) != os.path.join(directory, file):
        raise _refused(ImportError(f"{file} has the name of a module of Python's own"), file)
    if not hasattr(loaded, symbol):
        raise _refused(AttributeError(f"{file} has no {symbol!r}"), file)
    try:
        return examine(getattr(loaded, symbol))
    except TypeError as error:
        raise _refused(TypeError(f"{symbol!r} in {file} {error}"), file) from None


def _file_of(directory: str, module: str) -> str:
    path = module.replace(".", os.sep)
    for file in (os.path.join(path, "__init__.py"), path + ".py"):
        if os.path.isfile(os.path.join(directory, file)):
            return file
    raise _refused(FileNotFoundError(f"there is no file {path}.py"), path + ".py")


def _let_go_of_namesakes(directory: str) -> None:
    """A function may have a module named like one that is loaded already, because we use it. As in any Python
    program the function's comes first, except before what the interpreter itself cannot do without.
    """
    for entry in os.scandir(directory):
        name, extension = os.path.splitext(entry.name)
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is None or spec.origin in ("built-in", "frozen") or name == "nimbus":
            continue
        if extension == ".py" or os.path.isfile(os.path.join(entry.path, "__init__.py")):
            for other in [other for other in sys.modules if other == name or other.startswith(name + ".")]:
                del sys.modules[other]


def examine(function: Any) -> Handler:
    if not callable(function):
        raise TypeError("is not callable")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()):
            signature = inspect.signature(function)  # what a decorator passes all on to may take fewer
    except ValueError:  # of some that are written in C
        return Handler(function, 1, False)
    for count in (3, 2, 1):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return Handler(function, count, _is_async(function))
    raise TypeError("must take (event), (event, state) or (event, state, context)")


def _is_async(function: Any) -> bool:
    """Also of an object that is called, and of what a decorator wraps."""
    return any(
        inspect.iscoroutinefunction(inspect.unwrap(candidate))
        for candidate in (function, getattr(function, "__call__", function))
    )


def _place_of(error: BaseException, directory: str) -> tuple[str | None, int | None]:
    """Where in the function's own files it went wrong."""
    prefix = os.path.join(directory, "")
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(prefix):
        return error.filename[len(prefix) :], error.lineno
    file, line = None, None
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name.startswith(prefix):
            file, line = name[len(prefix) :], step.tb_lineno
        step = step.tb_next
    return file, line


def _refused(error: BaseException, file: str | None = None, line: int | None = None) -> LoadError:
    description = describe(error)
    if file is not None:
        description["file"] = utf8(file)
    if line is not None:
        description["line"] = line
    return LoadError(description)
