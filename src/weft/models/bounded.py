"""Settings of a model that come from a file, refused before anything is allocated where its weights cannot be the model's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import zip_longest
from math import prod
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from weft.core.errors import CheckpointError
from weft.core.untrusted import parsing
from weft.models.base import ModelConfig

LARGEST_SIZE = 1 << 24
"""No setting of a real model is larger."""
TABLES = 1 << 24
"""Numbers of tables that are computed, such as those of positions, beside what the weights hold."""
PARTS = 1000
"""Parts that a model may have for every tensor it holds, and some without any."""


def check(settings: ModelConfig, weights: Mapping[str, Tensor], what: str) -> None:
    """Build a model without filling it, and stop with a CheckpointError as soon as it is another than that of these weights."""
    with parsing(what, CheckpointError, ": makes no model"):
        check_sizes(settings, len(weights))
        held = sum(tensor.numel() for tensor in weights.values())
        with Budget(2 * held + TABLES, PARTS + 50 * len(weights), f"{what}: its weights are {held:,} numbers and its settings"):
            own = settings.build().state_dict()
        check_shapes(own, weights, what)


def check_sizes(settings: ModelConfig, tensors: int) -> None:
    """Refuse numbers that no model has, and more layers than there are tensors."""
    for name, value in flat(dataclasses.asdict(settings)):
        most = max(tensors, 16) if "layers" in name else LARGEST_SIZE
        if isinstance(value, int) and not 0 <= value <= most:
            raise ValueError(f"{name} cannot be {value}")


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every number inside settings, by the name of the setting."""
    inner = value.items() if isinstance(value, dict) else ((name, part) for part in value) if isinstance(value, (tuple, list)) else None
    if inner is None:
        yield name, value
    for key, part in inner or ():
        yield from flat(part, str(key))


def check_shapes(own: Mapping[str, Tensor], weights: Mapping[str, Tensor], what: str) -> None:
    for name, tensor in weights.items():
        if name in own and own[name].shape != tensor.shape:
            raise CheckpointError(
                f"{what}: the weights do not fit the model: those of {name} have the shape {list(tensor.shape)}, its settings say "
                f"{list(own[name].shape)}"
            )


class Budget(TorchFunctionMode):
    """Within it, models have at most so many numbers and parts, and no numbers are drawn: what is not filled takes no memory."""

    DRAWS = ("normal_", "uniform_", "bernoulli_", "random_", "exponential_")
    MAKERS = ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "eye")

    def __init__(self, numbers: int, parts: int, what: str):
        super().__init__()
        self.most, self.spent, self.what = {"numbers": numbers, "parts": parts}, {"numbers": 0, "parts": 0}, what
        self.seen: set[int] = set()
        self.hooks = ExitStack()

    def __enter__(self) -> Budget:
        for register in (hooks.register_module_parameter_registration_hook, hooks.register_module_buffer_registration_hook):
            self.hooks.callback(register(self.tensor).remove)
        self.hooks.callback(hooks.register_module_module_registration_hook(lambda module, name, part: self.spend("parts", 1)).remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.hooks.close()

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords, name = keywords or {}, getattr(function, "__name__", "")
        first = arguments[0] if arguments else keywords.get("tensor")
        if isinstance(first, Tensor) and (name in self.DRAWS or getattr(function, "__module__", "") == "torch.nn.init"):
            return first
        self.refuse("numbers", asked(arguments, keywords) if name in self.MAKERS else combined(name, arguments))
        return function(*arguments, **keywords)

    def tensor(self, module: nn.Module, name: str, value: Tensor | None) -> None:
        self.spend("parts", 1)
        if value is not None and id(value) not in self.seen:
            self.seen.add(id(value))
            self.spend("numbers", value.numel())

    def spend(self, kind: str, number: int) -> None:
        self.spent[kind] += number
        self.refuse(kind, self.spent[kind])

    def refuse(self, kind: str, number: int) -> None:
        if number > self.most[kind]:
            raise CheckpointError(f"{self.what} ask for more than {self.most[kind]:,} {kind}")


def asked(arguments: Any, keywords: Any) -> int:
    """How many numbers a tensor has that is to be made: the product of the sizes or, of a range, at most the largest."""
    sizes = arguments[0] if arguments and isinstance(arguments[0], (tuple, list)) else keywords.get("size", arguments)
    return prod(abs(size) for size in sizes if isinstance(size, int) and not isinstance(size, bool)) if sizes else 0


def combined(name: str, arguments: Any) -> int:
    """How many numbers come of tensors that are combined number by number, or each with each; 0 where there are none."""
    shapes = [part.shape for part in arguments if isinstance(part, Tensor)]
    if name in ("outer", "ger", "kron"):
        return prod(shape.numel() for shape in shapes)
    sizes = list(zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1))
    alike = shapes and all(len({*size} - {1}) < 2 for size in sizes)
    return prod(max(size) for size in sizes) if alike else 0  # torch.broadcast_shapes would import a second's worth of modules
