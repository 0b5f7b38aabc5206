"""What computes the same as plain layers, faster, and how it takes their place.

An installed implementation is an attribute of the instance: `forward` of a block, `attend` or `attention_fn` of attention. So hooks,
compilation, wrappers that share out weights, copies and the names of weights know no difference, and taking the attribute away gives the
plain layer. What was installed is noted beside it (`implementations`), so that what somebody else puts there later is told apart.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any, Protocol

from torch import nn


class Implementation(Protocol):
    name: str
    file: str
    """Where it stands, from the package on."""
    slot: str
    """The attribute of a module in whose place it stands."""
    where: str
    """Which calls it serves, where not all; the plain layer serves the others."""
    whole: bool = False
    """Whether it computes attention within it, too, whatever is chosen for attention itself."""
    traced: bool = False
    """Whether PyTorch's compiler takes it as operations of its own, where the plain layer would be unrolled."""

    def refuses(self, spec: Any, use: Any) -> str:
        """Why it does not compute exactly what is described, in a few words; nothing where it does."""
        ...

    def install(self, module: Any, use: Any) -> None: ...


def install(module: nn.Module, implementation: Implementation, what: Any, slot: str = "") -> None:
    """Put something in the place of an attribute of a module; a function becomes its method, but for a core, which is none."""
    slot = slot or implementation.slot
    method = isinstance(what, FunctionType) and slot != "attention_fn"
    vars(module)[slot] = MethodType(what, module) if method else what
    vars(module).setdefault("implementations", {})[slot] = vars(module)[slot]


def uninstall(model: nn.Module) -> None:
    """Leave only plain layers, and what somebody else has put in their place since."""
    for module in model.modules():
        for slot, what in vars(module).pop("implementations", {}).items():
            if vars(module).get(slot) is what:
                del vars(module)[slot]
