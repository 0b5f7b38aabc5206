"""Deep convolutional GAN (Radford et al., 2015, arXiv:1511.06434).

The generator doubles the side of the image with each transposed convolution, the discriminator halves it with each strided one;
there is no pooling and no hidden fully connected layer. Batch normalisation everywhere but at the generator's output and the
discriminator's input; ReLU in the generator, tanh at its end, leaky ReLU (0.2) in the discriminator; weights from N(0, 0.02²).
A critic with a gradient penalty must not have batch normalisation, as the penalty is of one example (Gulrajani et al., 2017).
Shapes: B batch, C channels, S side of an image, Z latent, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.adversaries import Discriminator, DiscriminatorHead, GANBase
from weft.models.generative.gan import Norm, WithReferenceBatch, layers, normalised

SMALLEST = 4
"""Side of an image that is not halved any more."""


@dataclass(frozen=True, kw_only=True)
class DCGANConfig(ModelConfig):
    image: tuple[int, ...] = ()
    """Shape of an image, (channels, side, side), the side 8 to 64 and a few times even; () takes it from the data."""
    latent: int = 100
    """Size Z of the noise."""
    width: int = 64
    """Channels next to the image; they double with every halving of the side."""
    generator_norm: Norm = "batch"
    """Normalisation of the generator: over the batch, over a fixed reference batch, or none."""
    discriminator_norm: Literal["batch", "layer", "none"] = "batch"
    """Normalisation of the discriminator; layer or none where a gradient penalty is taken."""
    mlp_width: int = 0
    """Width of a generator that is an MLP of four fully connected layers; 0 for convolutions."""
    minibatch_kernels: int = 0
    """Kernels of minibatch discrimination before the discriminator's output; 0 for none."""
    conditional: bool = False
    """Whether both networks are told the class."""
    classifier: bool = False
    """Whether the discriminator tells the class of what is real."""
    classes: int = 0
    """Number of classes K, where they are used; 0 takes it from the data."""

    def build(self) -> DCGAN:
        return DCGAN(self)


class DCGAN(GANBase):
    def __init__(self, config: DCGANConfig):
        c = self.config = self.check(config)
        super().__init__(c.latent, c.classes, c.conditional)
        self.separable = "batch" not in (c.generator_norm if not c.mlp_width else "none", c.discriminator_norm) and not c.minibatch_kernels
        self.config = config
        start, widths = plan(c.image[1], c.width)
        generator = self._perceptron() if c.mlp_width else self._generator(start, widths)
        self.generator = WithReferenceBatch(generator, self.inputs) if c.generator_norm == "virtual" and not c.mlp_width else generator
        head = DiscriminatorHead(
            widths[0] * start * start, classes=c.classes, conditional=c.conditional, classifier=c.classifier, kernels=c.minibatch_kernels
        )
        self.discriminator = Discriminator(self._features(widths), head)
        self.apply(draw_weights)

    @staticmethod
    def check(config: DCGANConfig) -> DCGANConfig:
        check_sizes(config, latent=1, width=1, classes=0, minibatch_kernels=0, mlp_width=0)
        if len(config.image) != 3 or config.image[1] != config.image[2] or config.image[0] < 1:
            raise ConfigError(
                f"--model.image must be channels and two equal sides, not {config.image}; square ones are made with --data.size"
            )
        return config

    def _generator(self, start: int, widths: list[int]) -> nn.Sequential:
        """(B, Z) -> (B, C, S, S) in (-1, 1). The first layer is a matrix, written as the convolution that it is."""
        norm = self.config.generator_norm
        bias = norm == "none"
        parts = [nn.Unflatten(1, (self.inputs, 1, 1)), nn.ConvTranspose2d(self.inputs, widths[0], start, bias=bias)]
        parts += [*normalised(norm, widths[0], images=True), nn.ReLU()]
        for first, second in pairwise(widths):
            parts += [nn.ConvTranspose2d(first, second, 4, 2, 1, bias=bias), *normalised(norm, second, images=True), nn.ReLU()]
        return nn.Sequential(*parts, nn.ConvTranspose2d(widths[-1], self.config.image[0], 4, 2, 1), nn.Tanh())

    def _perceptron(self) -> nn.Sequential:
        """(B, Z) -> (B, C, S, S) in (-1, 1)."""
        image, width = self.config.image, self.config.mlp_width
        size = image[0] * image[1] * image[2]
        body = layers((self.inputs, *[width] * 4), nn.Linear, lambda size: [nn.ReLU()])
        return nn.Sequential(*body, nn.Linear(width, size), nn.Unflatten(1, image), nn.Tanh())

    def _features(self, widths: list[int]) -> nn.Sequential:
        """(B, C, S, S) in (-1, 1) -> the last convolution, flattened."""
        norm = self.config.discriminator_norm
        parts: list[nn.Module] = [nn.Conv2d(self.config.image[0], widths[-1], 4, 2, 1), nn.LeakyReLU(0.2)]
        for first, second in pairwise(reversed(widths)):
            parts += [nn.Conv2d(first, second, 4, 2, 1, bias=norm == "none")]
            parts += [nn.BatchNorm2d(second)] if norm == "batch" else [nn.GroupNorm(1, second)] if norm == "layer" else []
            parts += [nn.LeakyReLU(0.2)]
        return nn.Sequential(*parts, nn.Flatten())

    def forward(self, z: Tensor) -> Tensor:
        """Noise, and beside it the class of a conditional model -> images (B, C, S, S) with values in (0, 1)."""
        return (super().forward(z).float() + 1) / 2

    def features(self, x: Tensor) -> Tensor:
        """x (B, C, S, S) or flat, with values in [0, 1] -> the discriminator's last features (B, F)."""
        return super().features(2 * x.reshape(len(x), *self.config.image) - 1)


def plan(side: int, width: int) -> tuple[int, list[int]]:
    """The smallest side, and the channels from there up to the layer next to the image."""
    start, downsamplings = side, 0
    while start % 2 == 0 and start // 2 >= SMALLEST:
        start, downsamplings = start // 2, downsamplings + 1
    if not downsamplings or start >= 2 * SMALLEST:
        raise ConfigError(
            f"--model.image: a side of {side} cannot be halved down to 4 to 7 pixels; choose 8, 16, 28, 32 or 64 with --data.size"
        )
    return start, [width * 2**i for i in reversed(range(downsamplings))]


def draw_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
    elif isinstance(module, nn.Linear):  # of the verdict, or of a perceptron, where 0.02 would leave nothing of the noise
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu") if module.out_features > 1 else nn.init.normal_(
            module.weight, 0.0, 0.02
        )
        nn.init.zeros_(module.bias)


TINY = DCGANConfig(image=(1, 8, 8), latent=8, width=8)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "mnist": DCGANConfig(image=(1, 28, 28), width=128),
    "cifar10": DCGANConfig(image=(3, 32, 32)),
    "faces": DCGANConfig(image=(3, 64, 64), width=128),
}
