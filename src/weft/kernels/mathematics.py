"""The plain mathematics that the kernels were checked against, by fingerprint.

A kernel computes what `nn` and a model file said when it was written. Where somebody changes these, the kernels are of another model: they
are refused, and the plain layers serve, in training and in decoding. Once the kernels are changed too, and the tests of
`tests/kernels/test_contract.py` pass, `python -m weft.kernels.mathematics` writes the fingerprints anew. Comments, docstrings and
annotations are no mathematics.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import sys
import textwrap
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from weft.kernels import replaced

FILE = Path(__file__).with_name("mathematics.json")
CHECKED: dict[str, tuple[str, ...]] = {
    "weft.nn.attention": ("fused_attention", "zero_masked_kv", "_causal_mask", "_make_causal_mask", "repeat_kv", "apply_rope"),
    "weft.nn.attention:SelfAttention": ("forward", "attend", "cached_attention"),
    "weft.nn.position": ("apply_rope", "rope_table"),
    "weft.nn.state:KVCache": ("extend",),
    "weft.nn.state:LayerKV": ("update",),
    "weft.nn.block:Block": ("forward",),
    "weft.nn.block:Blocks": ("forward",),
    "weft.nn.feed_forward": ("squared_relu",),
    "weft.nn.feed_forward:FeedForward": ("forward", "up_proj"),
    "weft.nn.feed_forward:GatedFeedForward": ("forward", "up_proj"),
    "weft.nn.dropout:Dropout": ("forward",),
    "weft.nn.dropout:DropPath": ("forward",),
    "weft.nn.norm:LayerNorm": ("forward",),
    "weft.nn.norm:RMSNorm": ("forward",),
    "weft.nn.recurrent": ("product", "rnn_step", "lstm_step", "lstm_from", "peephole_step", "coupled_step", "gru_step", "cho_gru_step"),
    "weft.nn.recurrent:RecurrentLayer": ("forward", "of_inputs", "recurrence", "first_state", "clipped", "projected"),
    "weft.kernels.int8_linear:Int8Linear": ("forward", "_sums"),
    "weft.models.language.decoder:Decoder": ("embedded", "_rope_table"),
    "weft.models.language.gpt:GPT": (
        "hidden",
        "embedded",
        "forward",
        "windows",
        "_sliding_window_mask",
        "_through_blocks",
        "decoder_stack",
    ),
    "weft.models.language.speedrun_gpt:SpeedrunGPT": (
        "hidden",
        "embedded",
        "forward",
        "windows",
        "_sliding_window_mask",
        "_through_blocks",
        "decoder_stack",
    ),
    "weft.models.language.llama:Llama": ("hidden", "embedded", "forward", "decoder_stack"),
    "weft.models.language.word2vec:Word2Vec": ("mean", "scores"),
    "weft.objectives.language.negative_sampling:NegativeSampling": ("forward", "losses", "outputs", "draw", "passages", "examples"),
    "weft.objectives.language.hierarchical_softmax:HierarchicalSoftmax": ("forward", "losses", "outputs", "passages", "examples"),
}
"""Functions of a module or a class that kernels stand in for."""
CACHED = ("weft.nn.state:KVCache", "weft.nn.state:LayerKV")
BUILT_ON: dict[str, tuple[str, ...]] = {
    "weft.nn.attention:SelfAttention": ("weft.nn.attention", "weft.nn.position"),
    "weft.nn.dropout:DropPath": ("weft.nn.dropout:Dropout",),
    "weft.nn.feed_forward:FeedForward": ("weft.nn.feed_forward",),
    "weft.nn.feed_forward:GatedFeedForward": ("weft.nn.feed_forward",),
    "weft.nn.recurrent:RecurrentLayer": ("weft.nn.recurrent",),
    "weft.models.language.gpt:GPT": ("weft.models.language.decoder:Decoder", "weft.nn.position", "weft.nn.block:Blocks", *CACHED),
    "weft.models.language.speedrun_gpt:SpeedrunGPT": (
        "weft.models.language.gpt:GPT",
        "weft.models.language.decoder:Decoder",
        "weft.nn.position",
        "weft.nn.block:Blocks",
        *CACHED,
    ),
    "weft.models.language.llama:Llama": ("weft.nn.position", *CACHED),
}
"""What else the mathematics of a class is made of."""


def is_checked(kind: type) -> bool:
    """Whether the kernels were checked against a class."""
    return name_of(kind) in CHECKED


def name_of(what: type | ModuleType) -> str:
    return what.__name__ if isinstance(what, ModuleType) else f"{what.__module__}:{what.__qualname__}"


def changed(what: type | ModuleType, seen: set[Any] | None = None) -> str:
    """What of a class or module is not as the kernels know it, in a few words; nothing where all is.

    Of a class that was never checked, such as PyTorch's own, only what was replaced while the program runs is told. seen: what was
    looked at before, and is noted here.
    """
    own, seen = name_of(what), set() if seen is None else seen
    for name in (own, *BUILT_ON.get(own, ())) if own in CHECKED else ():
        if name in seen:
            continue
        seen.add(name)
        known = recorded().get(name, {})
        for function in CHECKED[name]:
            held = found(name, function)
            if fingerprint(held) != known.get(function, "nothing"):
                return f"{name.rpartition(':')[2].rpartition('.')[2]}.{function} has changed since the kernels were checked against it"
            if why := replaced.called_by(held):
                return why
        if ":" in name and (why := replaced.of_class(owner(name), seen)):
            return why
    return replaced.of_class(what, seen) if isinstance(what, type) and own not in CHECKED else ""


@cache
def recorded() -> dict[str, dict[str, str]]:
    read: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return read


def owner(name: str) -> Any:
    """The module or class of a name of `CHECKED`."""
    module, _, kind = name.partition(":")
    home: Any = sys.modules.get(module) or importlib.import_module(module)
    return getattr(home, kind) if kind else home


def found(name: str, function: str) -> Any:
    held = inspect.getattr_static(owner(name), function, None)
    held = held.fget if isinstance(held, property) else held
    return getattr(held, "__func__", held)


def fingerprint(function: Any) -> str:
    """Of what a function does; no text where that cannot be read, as of one that is made of another."""
    plain = isinstance(function, FunctionType) and function.__code__.co_freevars in ((), ("__class__",))
    text = of_code(function.__code__) if plain else ""
    return hashlib.sha256(f"{text} {function.__defaults__} {function.__kwdefaults__}".encode()).hexdigest()[:16] if text else ""


@cache
def of_code(code: CodeType) -> str:
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except (OSError, SyntaxError, IndexError):
        return ""
    return hashlib.sha256(repr(bare(tree)).encode()).hexdigest()[:16] if isinstance(tree, ast.FunctionDef) else ""


def bare(node: Any) -> Any:
    """A syntax tree without docstrings, annotations and what is empty, which is the same in every version of Python."""
    if isinstance(node, list):
        return [bare(part) for part in node if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return bare(ast.Assign(targets=[node.target], value=node.value))
    if not isinstance(node, ast.AST):
        return node
    left_out = {"annotation", "returns", "type_comment", "ctx", "decorator_list", "kind", "type_params"}
    fields = [(name, bare(value)) for name, value in ast.iter_fields(node) if name not in left_out and value not in (None, [])]
    return [type(node).__name__, *fields]


def fingerprints() -> dict[str, dict[str, str]]:
    """Of everything as it is now."""
    return {name: {function: fingerprint(found(name, function)) for function in functions} for name, functions in CHECKED.items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(fingerprints(), indent=2) + "\n", encoding="utf-8")
