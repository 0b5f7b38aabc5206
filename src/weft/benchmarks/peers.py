"""The peers a training step is compared with: transformers' GPT-2, and a plain PyTorch loop as most people write it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import require
from weft.models.language.gpt import GPT, GPTConfig
from weft.training.optimizer.updater import parameter_kinds

Step = Callable[[], Tensor]
Batches = Callable[[int], tuple[Tensor, Tensor]]


class PlainBlock(nn.Module):
    """A pre-norm block with PyTorch's fused attention."""

    def __init__(self, c: GPTConfig):
        super().__init__()
        self.heads = c.heads
        self.norm1, self.norm2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)
        self.up, self.down = nn.Linear(c.width, 4 * c.width), nn.Linear(4 * c.width, c.width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        out: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return out


class PlainGPT(nn.Module):
    def __init__(self, c: GPTConfig):
        super().__init__()
        self.embed, self.position = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(PlainBlock(c) for _ in range(c.layers))
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.vocabulary, bias=False)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.position(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def loop(model: nn.Module, logits: Callable[[Tensor], Tensor], batches: Batches, lr: float, bf16: bool) -> Step:
    """The usual step: forward, mean loss, backward, clip, AdamW."""
    kinds, named = parameter_kinds([("", model)]), dict(model.named_parameters())
    decayed = [named[name] for name, kind in kinds.items() if kind != "no_decay"]
    others = [named[name] for name, kind in kinds.items() if kind == "no_decay"]
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)
    number = [0]

    def step() -> Tensor:
        ids, targets = batches(number[0])
        number[0] += 1
        with torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext():
            loss = F.cross_entropy(logits(ids).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def plain(config: GPTConfig, batches: Batches, lr: float, bf16: bool, device: torch.device) -> Step:
    torch.manual_seed(0)
    model = PlainGPT(config).to(device)
    return loop(model, model, batches, lr, bf16)


def twin(network: GPT) -> nn.Module:
    """transformers' GPT-2 with the weights of ours (learned positions, tied head; equal where our activation is gelu_tanh)."""
    transformers = require("transformers", "hf")
    c = network.config
    sizes = {"vocab_size": c.vocabulary, "n_embd": c.width, "n_layer": c.layers, "n_head": c.heads, "n_positions": c.context}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    other: nn.Module = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **off))
    pairs: dict[str, Any] = {"wte": network.embed, "wpe": network.position, "ln_f": network.norm}
    blocks: Any = network.blocks
    for i, block in enumerate(blocks):
        pairs |= {f"h.{i}.ln_1": block.norm1, f"h.{i}.ln_2": block.norm2}
        pairs |= {f"h.{i}.attn.c_attn": block.attention.qkv, f"h.{i}.attn.c_proj": block.attention.out}
        pairs |= {f"h.{i}.mlp.c_fc": block.feedforward.up, f"h.{i}.mlp.c_proj": block.feedforward.down}
    with torch.no_grad():
        for path, module in pairs.items():
            theirs = other.get_submodule(f"transformer.{path}")
            transposed = isinstance(module, nn.Linear)  # GPT-2 keeps its linear layers the other way round
            theirs.weight.copy_(module.weight.T if transposed else module.weight)  # type: ignore[operator, union-attr]
            if getattr(module, "bias", None) is not None:
                theirs.bias.copy_(module.bias)  # type: ignore[operator, union-attr]
    return other


def huggingface(network: GPT, batches: Batches, lr: float, bf16: bool) -> Step:
    """Training of the twin of a network, on the network's device."""
    model: Any = twin(network).to(next(network.parameters()).device).train()
    return loop(model, lambda ids: model(ids, use_cache=False).logits, batches, lr, bf16)
