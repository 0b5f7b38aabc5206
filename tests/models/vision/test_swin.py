"""Swin: windows against full attention under the mask that they mean, their cost, its size, and what it refuses.

Parity is in tests/convert/test_swin.py.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.kernels.select import use_attention
from weft.models.base import Classifies, need
from weft.models.vision.swin import (
    PRESETS,
    TINY,
    StochasticDepth,
    Swin,
    SwinBlock,
    SwinConfig,
    WindowAttention,
    roll,
    window_partition,
    window_reverse,
)
from weft.nn.attention import explicit_attention
from weft.training.optimizer.updater import parameter_kinds

CONFIG = dataclasses.replace(TINY, image=(3, 16, 12), classes=5, init_std=0.3)


def built(config: SwinConfig) -> Swin:
    torch.manual_seed(0)
    return config.build().eval()


def test_swin_t_has_28288354_parameters() -> None:
    with torch.device("meta"):
        model = PRESETS["t"].build()
    assert sum(p.numel() for p in model.parameters()) == 28_288_354


def test_cutting_and_joining_shifting_and_shifting_back_is_the_identity() -> None:
    x = torch.randn(2, 6, 9, 4)
    windows = window_partition(x, 3)
    assert torch.equal(windows[1, 4].view(3, 3, 4), x[1, 3:6, 3:6])
    assert torch.equal(window_reverse(windows, 3, 6, 9), x)
    assert torch.equal(roll(roll(x, -2), 2), x)
    assert torch.equal(roll(x, -1)[:, :-1, :-1], x[:, 1:, 1:])


def dense(block: SwinBlock, x: Tensor, table: int) -> Tensor:
    """The block's attention over all pairs of patches of x (B, Y, X, D), those of other windows masked.

    A patch at row y of a map shifted by s lies in window row (y - s) // window of the map as it was.
    """
    b, rows, columns, d = x.shape
    y, u = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    place = torch.stack((y, u), dim=-1).flatten(0, 1)  # (Y * X, 2)
    window = (place - block.shift).div(block.window, rounding_mode="floor")
    seen = (window[:, None] == window).all(-1)
    apart = (place[:, None] - place).clamp(1 - table, table - 1) + table - 1
    layer = block.attention
    bias = layer.bias.weight.view(2 * table - 1, 2 * table - 1, -1)[apart[..., 0], apart[..., 1]].movedim(-1, 0)
    q, k, v = layer.qkv(x.flatten(1, 2)).view(b, -1, 3, layer.heads, d // layer.heads).permute(2, 0, 3, 1, 4)
    mixed = explicit_attention(q, k, v, mask=seen[None, None], bias=bias)
    return layer.out(mixed.transpose(1, 2).reshape(b, rows, columns, d))  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", ["fused", "explicit"])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("window", "grid"), [(2, (4, 6)), (3, (9, 6)), (4, (8, 8)), (4, (4, 4)), (5, (3, 3))])
def test_windows_are_full_attention_under_a_mask(window: int, grid: tuple[int, int], shifted: bool, backend: str) -> None:
    torch.manual_seed(0)
    config = dataclasses.replace(CONFIG, window=window)
    block = SwinBlock(config, 0, grid, shifted=shifted, drop_path=0.0)
    use_attention(block.attention, backend)
    assert block.shift == (window // 2 if shifted and min(grid) > window else 0)
    x = torch.randn(2, *grid, config.width)
    torch.testing.assert_close(block.attend(x), dense(block, x, window), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shifted", [False, True])
def test_padding_is_zeros_at_the_lower_and_right_end_that_are_seen(shifted: bool) -> None:
    """As in the reference: they have keys (the bias) like any patch, and what they see themselves is cut off."""
    block = SwinBlock(dataclasses.replace(CONFIG, window=4), 0, (7, 5), shifted=shifted, drop_path=0.0)
    x = torch.randn(2, 7, 5, CONFIG.width)
    padded = torch.zeros(2, 8, 8, CONFIG.width)
    padded[:, :7, :5] = x
    torch.testing.assert_close(block.attend(x), dense(block, padded, 4)[:, :7, :5], atol=1e-5, rtol=1e-5)


def test_shifted_blocks_carry_information_across_windows() -> None:
    model = built(dataclasses.replace(CONFIG, image=(3, 16, 16), layers=(2,), heads=(2,)))
    x = torch.randn(1, 8, 8, CONFIG.width)
    changed = x.clone()
    changed[:, 1, 1] += 1.0  # the lower right patch of the first window
    first = (model.stages[0][0](x) != model.stages[0][0](changed)).any(-1)[0]  # type: ignore[index]
    assert first.nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    both = (model.stages[0](x) != model.stages[0](changed)).any(-1)[0]
    assert both.nonzero().amax(0).tolist() == [2, 2]


def test_the_cost_is_linear_in_the_size_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores computed, counted where they are made; full attention would make 16 times as many for 4 times the pixels."""
    counted: list[int] = []

    def count(q: Tensor, k: Tensor, v: Tensor, **rest: object) -> Tensor:
        counted.append(q.size(0) * q.size(1) * q.size(2) * k.size(2))
        return v

    monkeypatch.setattr(WindowAttention, "attention_fn", staticmethod(count))
    totals = []
    for side in (32, 64, 128):
        counted.clear()
        built(dataclasses.replace(CONFIG, image=(3, side, side), window=4))(torch.randn(1, 3, side, side))
        totals.append(sum(counted))
    patches = [(side // 2) ** 2 for side in (32, 64, 128)]
    assert totals == [2 * n * 16 * 2 + 2 * (n // 4) * 16 * 4 for n in patches]  # blocks * patches * window² * heads, of both stages


def test_shapes_and_heads() -> None:
    model = built(CONFIG)
    need(model, Classifies)
    image = torch.randn(4, 3, 16, 12)
    assert model.hidden(image).shape == (4, 12, 32)
    assert model.classify(image).shape == (4, 5)
    torch.testing.assert_close(model(image), model.head(model.hidden(image).mean(1)))


@pytest.mark.parametrize("image", [(1, 5, 7), (3, 1, 1), (2, 31, 3)])
def test_any_size_of_image_works(image: tuple[int, int, int]) -> None:
    model = built(dataclasses.replace(CONFIG, image=image, window=3, layers=(2, 2, 2), heads=(1, 2, 4)))
    assert torch.isfinite(model(torch.randn(2, *image))).all()


def test_weights_do_not_depend_on_the_size_of_the_image() -> None:
    """Masks and places follow from the settings, so a model trained on small images can be trained further on large ones."""
    small, large = built(CONFIG), built(dataclasses.replace(CONFIG, image=(3, 37, 50)))
    large.load_state_dict(small.state_dict())


def test_drop_path_takes_whole_branches_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer, x = StochasticDepth(0.3), torch.ones(20_000, 2, 3)
    out = layer(x)
    kept = out[:, 0, 0] > 0
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / 0.7))
    assert not out[~kept].any()
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.01)
    assert torch.equal(layer.eval()(x), x)


def test_drop_path_rises_from_block_to_block() -> None:
    model = built(dataclasses.replace(CONFIG, layers=(2, 3), drop_path=0.2))
    rates = [module.share for module in model.modules() if isinstance(module, StochasticDepth)]
    assert rates == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])


def test_what_is_decayed() -> None:
    kinds = parameter_kinds([("", built(CONFIG))])
    block = "stages.0.0."
    assert {kinds[name] for name in (f"{block}attention.bias.weight", f"{block}norm1.weight", "patch_norm.weight")} == {"no_decay"}
    assert {kinds[name] for name in ("patches.weight", "merges.0.reduce.weight", f"{block}attention.qkv.weight")} == {"matrix"}
    assert kinds["head.weight"] == "head"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": 0}, "classes must be at least 1"),
        ({"image": ()}, r"image must be channels, height and width, such as 3 224 224, not \(\)"),
        ({"image": (3, 0, 8)}, "image must be channels"),
        ({"window": 0}, "window must be at least 1"),
        ({"layers": ()}, "must each say a number for every stage"),
        ({"layers": (2, 0)}, "must each say a number for every stage"),
        ({"heads": (2,)}, "must each say a number for every stage"),
        ({"heads": (2, 5)}, "32, the width of stage 2, is not a multiple of 5"),
        ({"drop_path": 1.0}, "drop_path must be"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **wrong).build()  # type: ignore[arg-type]


def test_an_image_of_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape \(3, 16, 16\) does not fit a model made for \(3, 16, 12\)"):
        built(CONFIG).classify(torch.randn(2, 3, 16, 16))


def test_a_black_image_has_a_gradient_like_any_other() -> None:
    torch.manual_seed(0)
    model = SwinConfig(image=(3, 32, 32), classes=2, patch=2, window=4, width=24, layers=(2, 6, 2), heads=(2, 4, 8)).build()
    model(torch.zeros(2, 3, 32, 32)).logsumexp(1).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert float(torch.stack([gradient.norm() for gradient in gradients]).norm()) < 1e3
