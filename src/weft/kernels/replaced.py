"""What was replaced while the program runs, so that a class or function is no longer what stands in its file.

`kernels.mathematics` knows the text of what kernels stand in for. Somebody may as well put another function in its place, or in that of
something it calls: a method of a class of PyTorch's, `F.scaled_dot_product_attention`, a helper, default arguments. All that a known class
is made of is therefore looked at where it is: a function has to come of the file of its class or module, and be called what that calls it.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TORCH, WEFT = f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent.parent}/"
PACKAGES = frozenset({"torch", "weft", *sys.stdlib_module_names})
MADE_BY_PYTHON = frozenset(vars(namedtuple("_", ())))
"""Members that a named tuple gets from no file."""
CALLING = frozenset({"__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "forward", "__getattr__", "__getattribute__"})
"""What of `nn.Module` runs when a layer is called; other packages give it methods more, and torch.compile replaces `__init__`."""
# what a global of a module may be that is neither called nor a module
CONSTANTS = (int, float, str, bytes, tuple, frozenset, dict, list, set, Tensor, type(None))
CALLED = ("linear", "embedding", "layer_norm", "rms_norm", "scaled_dot_product_attention", "gelu", "relu", "silu", "dropout")
"""What layers of PyTorch's, and activations in a table, call in `torch.nn.functional`."""


def members(kind: type) -> str:
    """What of a class, less what it is built on, does not stand in its file, in a few words; nothing where all does."""
    home, owner = str(getattr(sys.modules.get(kind.__module__), "__file__", None) or ""), kind.__qualname__
    for name, held in vars(kind).items() if home else ():
        if kind is nn.Module and name not in CALLING:
            continue
        if name not in MADE_BY_PYTHON and not all(stands_in(home, owner, made) for made in functions_of(held)):
            return f"{kind.__name__}.{name} has been replaced"
    return ""


def functions_of(held: Any) -> Iterator[Any]:
    """What a member of a class runs, where it runs anything that could stand in a file."""
    if isinstance(held, (staticmethod, classmethod)):
        yield held.__func__
    elif isinstance(held, property):
        yield from (made for made in (held.fget, held.fset, held.fdel) if made)
    elif isinstance(held, cached_property):
        yield held.func
    elif isinstance(held, FunctionType):
        yield held
    elif not isinstance(held, type) and type(held).__module__ not in ("builtins", "_collections"):
        yield from [held] * (callable(held) or hasattr(type(held), "__get__"))


def stands_in(home: str, owner: str, made: Any) -> bool:
    """Whether a function is one of a class `owner` in a file, or of no class there; a decorator of torch's may be around it."""
    while in_torch(made) and made.__code__.co_filename != home and hasattr(made, "__wrapped__"):
        made = made.__wrapped__
    if not isinstance(made, FunctionType):
        return False
    return made.__code__.co_filename == home and made.__code__.co_qualname.rpartition(".")[0] in ("", owner)


def in_torch(made: Any) -> bool:
    return isinstance(made, FunctionType) and made.__code__.co_filename.startswith(TORCH)


def called_by(function: Any) -> str:
    """What a function calls in its module, and in modules of torch that it names, that is not what they have of their own."""
    names, home = function.__code__.co_names, function.__globals__
    for name in names:
        if name not in home:
            continue
        held = home[name]
        if isinstance(held, ModuleType):
            if held.__name__.partition(".")[0] not in PACKAGES or sys.modules.get(held.__name__) is not held:
                return f"{home['__name__'].rpartition('.')[2]}.{name} has been replaced"
            if wrong := next((other for other in names if held.__name__.startswith("torch") and not is_own(held, other)), ""):
                return f"{held.__name__}.{wrong} has been replaced"
        elif not isinstance(held, CONSTANTS) and not known(held, name):
            return f"{home['__name__'].rpartition('.')[2]}.{name} has been replaced"
    return ""


def is_own(module: ModuleType, name: str) -> bool:
    """Whether what a module of torch's calls by a name, if anything, is torch's own of this name."""
    held = vars(module).get(name)
    return not callable(held) or known(held, name)


def known(held: Any, name: str) -> bool:
    """Whether something that can be called is weft's, torch's or Python's own, and has this name there."""
    if isinstance(held, type):
        return held.__module__.partition(".")[0] in PACKAGES and held.__name__ == name
    if isinstance(held, BuiltinFunctionType):
        return held.__name__ == name
    if isinstance(held, FunctionType):
        path, (owner, _, own) = held.__code__.co_filename, held.__code__.co_qualname.rpartition(".")
        ours = path.startswith((TORCH, WEFT)) and (own == name or "<locals>" in owner)
        return ours or (own == name and path == home_of(held))
    return type(held).__module__.partition(".")[0] in ("torch", "typing", "functools") and not hasattr(held, "func")


def home_of(function: FunctionType) -> str:
    """The file of a module of Python's own that a function says it is from."""
    root = function.__module__.partition(".")[0] if function.__module__ else ""
    return str(getattr(sys.modules.get(function.__module__), "__file__", "")) if root in sys.stdlib_module_names else ""


def of_class(kind: type, seen: set[Any]) -> str:
    """What of a class and those it is built on, or of what they call, has been replaced, in a few words; nothing where nothing has.

    seen: what was looked at before, and is noted here.
    """
    for one in kind.__mro__:
        if one not in seen:
            seen.add(one)
            if why := members(one) or ("forward" in vars(one) and called_by(vars(one)["forward"])):
                return why
    return ""


def of_torch() -> str:
    """The same of the functions and operations of tensors that layers and activations call."""
    shown = ("__repr__", "__str__", "__format__")
    methods = ((name, held) for name, held in vars(Tensor).items() if hasattr(torch._C.TensorBase, name) and name not in shown)
    replaced = (f"Tensor.{name}" for name, held in methods if not all(map(in_torch, functions_of(held))))
    functional = (f"torch.nn.functional.{name}" for name in CALLED if not is_own(F, name))
    return next((f"{name} has been replaced" for name in chain(replaced, functional)), "")
