"""T5 against transformers, beyond what `weft bench parity` compares: attention step by step, buckets, losses in training, presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from tests.convert.parity import close, imported, imported_files
from weft.benchmarks.references import CASES, KINDS, reference
from weft.convert.t5 import FAMILY
from weft.core.errors import CheckpointError
from weft.kernels.select import use_attention
from weft.models.language.t5 import PRESETS, bucket

transformers = pytest.importorskip("transformers")
V11 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SIZES = list(CASES["t5"].values())


@torch.no_grad()
def explicit_attention_is_close(ours: Any, theirs: Any) -> None:
    """What is computed step by step, where a kernel cannot do it, is the same too."""
    reads = KINDS["t5"].reads
    use_attention(ours, "explicit")
    given = reads.inputs(theirs.config)
    for mine, expected in zip(reads.ours(ours, given), reads.theirs(theirs, given), strict=True):
        close(mine, expected)


@pytest.mark.parametrize("size", SIZES, ids=CASES["t5"])
def test_explicit_attention_gives_the_same_logits(size: dict[str, Any]) -> None:
    theirs = reference("t5", size)
    explicit_attention_is_close(imported(theirs, FAMILY), theirs)


@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (32, 1000), (8, 12), (64, 256), (10, 20)])
@pytest.mark.parametrize("causal", [False, True])
def test_buckets_are_those_of_transformers(buckets: int, distance: int, causal: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    offsets = torch.arange(-1000, 1001)
    theirs = T5Attention._relative_position_bucket(offsets, not causal, buckets, distance)
    assert torch.equal(bucket(offsets, buckets, distance, causal), theirs)


def test_a_hundred_steps_of_adamw_equal_those_of_transformers() -> None:
    size = {**SIZES[0], "dropout_rate": 0.0}
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**size))
    ours = imported(theirs, FAMILY).train()
    theirs.train()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=3e-3, weight_decay=0.01, foreach=False) for m in (ours, theirs)]
    torch.manual_seed(1)
    losses = []
    for _ in range(100):
        source, lengths = torch.randint(2, 100, (8, 12)), torch.randint(1, 13, (8,))
        target = F.pad(source.flip(1)[:, :8], (1, 0))  # the source backwards, from id 0 on
        logits = ours(source, lengths, target[:, :-1])
        told = theirs(
            input_ids=source, attention_mask=(torch.arange(12) < lengths[:, None]).long(), decoder_input_ids=target[:, :-1]
        ).logits
        pair = [F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten()) for scores in (logits, told)]
        for optimizer, loss in zip(optimizers, pair, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append([float(loss.detach()) for loss in pair])
    assert max(abs(a - b) / b for a, b in losses) < 1e-4
    assert losses[-1][1] < 0.95 * losses[0][1]


@pytest.mark.parametrize("size", SIZES[:2])
def test_weights_start_alike(size: dict[str, Any]) -> None:
    """The spread of every tensor but an untied head, which they give 1 and the authors 1 / sqrt(D)."""
    size = {**size, "d_model": 160, "d_ff": 200, "vocab_size": 300, "relative_attention_num_buckets": 128}
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**size))
    settings = FAMILY.settings(theirs.config.to_dict())
    ours = settings.build().state_dict()
    for name, tensor in FAMILY.table(settings).to_own(theirs.state_dict()).items():
        if name != "head.weight":
            assert float(ours[name].std(correction=0)) == pytest.approx(float(tensor.std(correction=0)), rel=0.1), name


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "tiny"])
def test_presets_have_as_many_parameters_as_theirs(preset: str) -> None:
    c = PRESETS[preset]
    with torch.device("meta"):
        ours = sum(p.numel() for p in c.build().parameters())
        theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**FAMILY.describe(c)))
    head = 0 if c.tie_embeddings else c.vocabulary * c.width  # which they build tied, and read apart
    assert ours == sum(p.numel() for p in theirs.parameters()) + head


def test_published_settings_are_understood() -> None:
    """As the first files have them, with fewer fields; as version 1.1 has them; and as transformers 5 writes these again."""
    first = {"d_ff": 2048, "d_kv": 64, "d_model": 512, "num_heads": 8, "num_layers": 6, "vocab_size": 32128}
    assert FAMILY.settings(first) == PRESETS["small"]
    for config in ({**first, **V11}, transformers.T5Config(**first, **V11).to_dict()):
        found: Any = FAMILY.settings(config)
        assert (found.gated, found.tie_embeddings) == (True, False)


@torch.no_grad()
def test_an_untied_model_as_transformers_builds_and_keeps_it(tmp_path: Path) -> None:
    """Without a head in its file, and with states that are not scaled."""
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**{**SIZES[0], **V11})).eval()
    ours = imported_files(theirs, FAMILY, tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "theirs" / "model.safetensors")
    reads = KINDS["t5"].reads
    given = reads.inputs(theirs.config)
    for mine, expected in zip(reads.ours(ours, given), reads.theirs(theirs, given), strict=True):
        close(mine, expected)


def test_repeats_and_what_is_never_used_may_stand_in_the_file() -> None:
    theirs = reference("t5", SIZES[0])
    tensors = dict(theirs.state_dict())
    assert "encoder.embed_tokens.weight" in tensors
    table = FAMILY.table(FAMILY.settings(theirs.config.to_dict()))
    extra = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.zeros(32, 4)}
    assert set(table.to_own({**tensors, **extra})) == set(table.to_own(tensors))
    with pytest.raises(CheckpointError, match=r"'decoder\.embed_tokens\.weight' and 'shared\.weight' should be the same"):
        table.to_own({**tensors, "decoder.embed_tokens.weight": torch.zeros(100, 32)})


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.T5Config(**SIZES[0]).to_dict()
    with pytest.raises(CheckpointError, match="feed_forward_proj is 'gated-silu'"):
        FAMILY.settings({**config, "feed_forward_proj": "gated-silu"})
    with pytest.raises(CheckpointError, match="dense_act_fn is 'gelu', which weft's T5 does not have with feed_forward_proj 'relu'"):
        FAMILY.settings({**config, "dense_act_fn": "gelu"})
    with pytest.raises(CheckpointError, match="is_gated_act is True"):
        FAMILY.settings({**config, "is_gated_act": True})
    with pytest.raises(CheckpointError, match=r"layer_norm_epsilon is 0\.1"):
        FAMILY.settings({**config, "layer_norm_epsilon": 0.1})
    with pytest.raises(CheckpointError, match="'d_kv' is missing"):
        FAMILY.settings({name: value for name, value in config.items() if name != "d_kv"})
