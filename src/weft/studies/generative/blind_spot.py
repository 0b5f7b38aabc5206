"""Which pixels a PixelCNN sees: gradients of one pixel's logits with respect to the image, for untrained networks.

A stack of masked convolutions never sees a triangle above and to the right of a pixel, however deep it is: a step to the right
is possible only one row higher, so k columns to the right are reached k rows above at the earliest. Two stacks see it. And with
mask A in every layer, not only in the first, each layer hides one more of the nearest pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.generative.gated_pixelcnn import GatedPixelCNNConfig
from weft.models.generative.pixelcnn import PixelCNNConfig
from weft.nn.convolution.masked_convolution import MaskedConv2d
from weft.report.cells import cells
from weft.studies.base import Finding

IMAGES = 64
"""Random images over which gradients are averaged, as a ReLU may be dead for one of them."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    side: int = 15
    """Side of the image in pixels."""
    layers: int = 12
    """Layers after the first one."""
    width: int = 16
    """Channels of each network."""
    kernel: int = 3
    """Side of every kernel."""


class OnlyA(nn.Module):
    """A PixelCNN whose every layer has mask A."""

    def __init__(self, settings: Settings):
        super().__init__()
        size, width = (settings.kernel, settings.kernel), settings.width
        first, rest = MaskedConv2d(1, width, size, "A"), (MaskedConv2d(width, width, size, "A") for _ in range(settings.layers))
        self.layers = nn.Sequential(first, *(part for layer in rest for part in (nn.Tanh(), layer)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def seen(model: nn.Module, side: int, place: tuple[int, int]) -> Tensor:
    """(H, W): whether the output at a place depends on each pixel."""
    x = torch.rand(IMAGES, 1, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    out = model.double().eval()(x)
    (gradient,) = torch.autograd.grad(out[..., place[0], place[1]].square().sum(), x)
    return (gradient != 0).any(0)[0]


def networks(settings: Settings) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    image = (1, settings.side, settings.side)
    sizes = {"layers": settings.layers, "width": settings.width, "first_kernel": settings.kernel, "kernel": settings.kernel}
    plain, gated = PixelCNNConfig(image=image, **sizes), GatedPixelCNNConfig(image=image, **sizes)
    return {"PixelCNN": plain.build(), "gated PixelCNN": gated.build(), "mask A in every layer": OnlyA(settings)}


def study(settings: Settings) -> Finding:
    """Draw what each network sees of the pixels before the one in the middle."""
    if settings.side < 5 or settings.kernel < 3 or settings.kernel % 2 == 0 or settings.layers < 1 or settings.width < 1:
        raise ConfigError("--side must be at least 5, --kernel odd and at least 3, --layers and --width at least 1")
    row, column = settings.side // 2 + 1, settings.side // 2
    before = torch.arange(settings.side**2).view(settings.side, settings.side) < row * settings.side + column
    figure, body = "", []
    for name, model in networks(settings).items():
        found = seen(model, settings.side, (row, column))
        figure += cells(name, (found.double() + 0.25 * (before & ~found)).tolist(), framed=(row, column))
        missed, wrong = int((before & ~found).sum()), int((found & ~before).sum())
        row_seen = found[row].nonzero()
        left = f"{column - int(row_seen.max())} away" if len(row_seen) else "none"
        body.append((name, f"{int(found.sum())} of {int(before.sum())}", str(missed), str(wrong), left))
    claim = (
        f"The framed pixel may depend on the {int(before.sum())} before it. After {settings.layers + 1} layers a PixelCNN misses "
        f"{body[0][2]}, in a triangle above and to the right; the two stacks of a gated one miss {body[1][2]}. With mask A in every layer "
        f"{body[2][2]} are missed, and of the pixels to the left the nearest that is seen: {body[2][4]}. Full squares are seen, grey ones "
        "are missed."
    )
    head = ("network", "pixels seen", "missed", "seen but not allowed", "nearest to the left")
    return Finding("What a PixelCNN sees", claim, head, tuple(body), figure)
