"""nanoGPT beside a GPT of ours: its own model file, its own optimiser, the loop of its train.py.

Its model.py is given by the folder that holds it; nothing of it is kept here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import DataError
from weft.data.base import Batch
from weft.models.language.gpt import GPTConfig
from weft.training.optimizer.settings import AdamW

NAMES = {
    "embed.": "transformer.wte.",
    "position.": "transformer.wpe.",
    "norm.": "transformer.ln_f.",
    "norm1.": "ln_1.",
    "norm2.": "ln_2.",
    "attention.qkv.": "attn.c_attn.",
    "attention.out.": "attn.c_proj.",
    "feedforward.up.": "mlp.c_fc.",
    "feedforward.down.": "mlp.c_proj.",
}
"""Our names and its own."""


def build(folder: str, model: GPTConfig, vocabulary: int) -> Any:
    """Its model of the same shape, and with the same GELU: by tanh, as in GPT-2, where its own is exact."""
    path = Path(folder) / "model.py"
    if not path.is_file():
        raise DataError(f"--nanogpt: {path} is not there; give the folder of nanoGPT's model.py")
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sizes = {"n_layer": model.layers, "n_head": model.heads, "n_embd": model.width, "block_size": model.context}
    with contextlib.redirect_stdout(io.StringIO()):
        twin = module.GPT(module.GPTConfig(**sizes, vocab_size=vocabulary, dropout=0.0, bias=model.bias))
    for block in twin.transformer.h:
        block.mlp.gelu = nn.GELU(approximate="tanh" if model.activation == "gelu_tanh" else "none")
    return twin


def translated(name: str) -> str:
    """Its name of a parameter of ours: blocks.3.norm1.weight is transformer.h.3.ln_1.weight."""
    if not name.startswith("blocks."):
        return next(theirs + name.removeprefix(ours) for ours, theirs in NAMES.items() if name.startswith(ours))
    _, number, rest = name.split(".", 2)
    return f"transformer.h.{number}." + next(theirs + rest.removeprefix(ours) for ours, theirs in NAMES.items() if rest.startswith(ours))


@torch.no_grad()
def take_weights(twin: nn.Module, model: nn.Module) -> None:
    """Give it the weights of ours."""
    own = dict(twin.named_parameters())
    for name, parameter in model.named_parameters():
        own[translated(name)].copy_(parameter)


def stepper(
    twin: Any, optim: AdamW, device: torch.device, batches: Callable[[], Batch], compiled: bool, rate: Callable[[], float] | None = None
) -> Callable[[], Tensor]:
    """One step of its loop: bf16 products, gradients clipped, fused AdamW."""
    twin = twin.to(device).train()
    with contextlib.redirect_stdout(io.StringIO()):
        optimizer = twin.configure_optimizers(optim.weight_decay, optim.lr, optim.betas, device.type)
    run = torch.compile(twin) if compiled else twin

    def step() -> Tensor:
        lr = rate() if rate else optim.lr
        for group in optimizer.param_groups:
            group["lr"] = lr
        batch = {name: tensor.contiguous() for name, tensor in batches().items()}  # it views them as one row
        with torch.autocast(device.type, torch.bfloat16):
            _, loss = run(batch["ids"], batch["targets"])
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), optim.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        found: Tensor = loss.detach()
        return found

    return step
