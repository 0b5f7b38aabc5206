"""How long, how large and how a run is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.core.config import Config


@dataclass(frozen=True, kw_only=True)
class Parallel(Config):
    """How many processes train together; the product is the number that torchrun starts."""

    replicate: int = 1
    """Copies of the model, each with a part of every batch."""
    shard: int = 1
    """Parts into which a copy's weights and optimiser state are divided; each has a part of the copy's examples, too."""
    tensor: int = 1
    """Parts into which the heads and inner units of each Transformer block are divided; they share their examples."""
    pipeline: int = 1
    """Stages into which the blocks of a Transformer are cut, one behind the other; micro-batches go through them in turn."""
    timeout: int = 600
    """Seconds after which a process that does not answer is given up, and the run ends."""


@dataclass(frozen=True, kw_only=True)
class Train(Config):
    steps: int = 1000
    """Updates to make in all."""
    batch: int = 32
    """Examples per update, over all micro-batches."""
    micro_batch: int = 0
    """Examples per micro-batch of one process (gradient accumulation); 0 takes the whole batch at once, or in four per pipeline stage.
    Gradients are the same either way, but for what dropout drops, and for models that look at a batch as a whole, such as those with
    batch normalisation, which say so."""
    batch_ramp: tuple[int, int] = (0, 0)
    """Batch-size ramp-up: start at this many examples and grow linearly to `batch` over this many examples; (0, 0) for none."""
    seed: int = 1
    """Of the weights, the data order and all noise."""
    embedding: str = ""
    """Run of word vectors (`weft convert vectors.bin RUN`, or a word2vec run) that the token embedding begins with, matched by word."""
    freeze_embedding: bool = False
    """Leave the tokens that were found there as they are."""
    log_every: int = 10
    """Steps between lines of the log."""
    log: tuple[str, ...] = ("tensorboard",)
    """Where else the log and the samples go: tensorboard, wandb, mlflow, or several with commas; none for nowhere."""
    eval_every: int = 100
    """Steps between validations; 0 for none."""
    eval_examples: int = 0
    """Validation examples used each time, the same ones; 0 for all."""
    save_every: int = 500
    """Steps between checkpoints; one is also written at the end and at every best validation."""
    keep_checkpoints: int = 2
    """Newest checkpoints to keep, besides the best one."""
    patience: int = 0
    """Stop after this many validations without a better one and keep the best; 0 never stops early."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights; 0 for none. Where set, evaluation and sampling use it. In the first
    9 / (1 - ema) steps the decay is smaller, so that the average keeps up with a young model."""
    nonfinite: Literal["raise", "skip", "rollback"] = "raise"
    """When a gradient is not finite the update is not made; then stop, go on, or return to the last checkpoint and take other data."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """Arithmetic of matrix products; weights are always fp32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile each turn with torch.compile."""
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    """Capture each update as one CUDA graph."""
    attention: Literal["auto", "fused", "cudnn", "explicit"] = "auto"
    """Attention as one fused kernel (PyTorch's choice or cuDNN's) or as matrix products and a softmax."""
    block_kernels: Literal["auto", "fused", "plain"] = "auto"
    """Transformer blocks by kernels of our own where these serve, or operation by operation."""
    cross_entropy: Literal["auto", "whole", "chunked"] = "auto"
    """Make the logits of a batch at once, or for some tokens at a time without ever keeping them."""
    activation_checkpointing: Literal["auto", "none", "selective", "full"] = "auto"
    """Recompute activations of each Transformer block in the backward pass instead of keeping them: none, selective (all but the outputs of
    matrix products and attention) or full (all but the input of the block)."""
    fused_casts: Literal["auto", "on", "off"] = "auto"
    """Whether Adam itself reads bf16 gradients of matrices and writes their bf16 copies, or each is cast apart."""
    deterministic: bool = False
    """Use only kernels that give the same bits each time (always so on the CPU)."""
