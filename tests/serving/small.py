"""Small models with random weights behind the real engine: one that continues texts and one that translates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from weft.data.tokenizers.base import ByteTokenizer, ClassNames
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.models.generative.conditional_vae import ConditionalVAEConfig
from weft.models.language.gpt import GPTConfig
from weft.models.language.nonautoregressive import NonAutoregressiveConfig
from weft.models.language.transformer import TransformerConfig
from weft.recipes.base import Recipe
from weft.runs.load import Loaded
from weft.serving.service import ServedModel, serve_model


def small_gpt(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return GPTConfig(**{"vocabulary": 256, "context": 300, "layers": 2, "heads": 2, "width": 32, **settings}).build().eval()


def small_translator(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return TransformerConfig(**{"vocabulary": 259, "context": 24, "layers": 2, "heads": 2, "width": 32, **settings}).build().eval()


def served(name: str, model: nn.Module, tokenizer: Any) -> ServedModel:
    return serve_model(name, Loaded(Path(), Recipe.__new__(Recipe), model, tokenizer, {}), slots=2)


def served_gpt() -> ServedModel:
    return served("gpt", small_gpt(), ByteTokenizer())


def served_translator() -> ServedModel:
    return served("translator", small_translator(decoder_layers=1), Seq2SeqTokenizer(ByteTokenizer()))


def small_filler(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    small = {"vocabulary": 259, "context": 24, "layers": 2, "decoder_layers": 1, "heads": 2, "width": 32}
    model = NonAutoregressiveConfig(**{**small, **settings}).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def served_filler(name: str = "filler", **settings: Any) -> ServedModel:
    return served(name, small_filler(**settings), Seq2SeqTokenizer(ByteTokenizer()))


def served_images(name: str = "digits", **settings: Any) -> ServedModel:
    """A model that draws images of the class it is asked for."""
    torch.manual_seed(0)
    small = {"features": 64, "image": (1, 8, 8), "classes": 3, "latent": 4, "hidden": (16,)}
    return served(name, ConditionalVAEConfig(**{**small, **settings}).build().eval(), ClassNames(["cat", "dog", "7"]))
