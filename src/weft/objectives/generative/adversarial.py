"""The GAN loss (Goodfellow et al., 2014, arXiv:1406.2661): a discriminator tells real from generated, a generator learns to pass.

With D = sigmoid(log-odds), the discriminator's loss is -log D(real) - log(1 - D(generated)); at its best, D = p / (p + q), it is
log 4 - 2 JSD(p, q). Other losses, and what may be added to them, are in gan_losses.py; each is a setting, and they compose: Wasserstein
with clipping (Arjovsky et al., 2017) or with a gradient penalty (Gulrajani et al., 2017), feature matching, historical averaging and
one-sided smoothing (Salimans et al., 2016), a class loss for a discriminator that classifies. Clipping each weight to [-c, c] makes the
critic K-Lipschitz for some K that depends on c and on the network, not 1-Lipschitz.
Batch: image (B, ...), or another input; label (B,) for models with classes; noise comes from the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Extracts, Samples, SamplesClass
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count
from weft.objectives.classification import correct, label_loss, labelled
from weft.objectives.generative.distribution_distance import coverage, frechet, moments, near_modes
from weft.objectives.generative.gan_losses import Loss, Part, feature_matching_loss, gan_loss, gradient_penalty
from weft.objectives.generative.historical_averaging import HistoricalAverage


class GAN(Samples, SamplesClass, Extracts, Protocol):
    """A generator and a discriminator; classes and features only where an option asks for them."""

    def discriminate(self, x: Tensor, label: Tensor | None = None) -> Tensor: ...
    def classify(self, x: Tensor) -> Tensor: ...
    def get_submodule(self, target: str) -> nn.Module: ...


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig(ObjectiveConfig):
    input: str = "image"
    """Name of the real examples in a batch."""
    loss: Loss = "non_saturating"
    """GAN loss of a score: by log-odds, the generator's part -log D(generated) or log(1 - D(generated)), or otherwise."""
    discriminator_steps: int = 1
    """Discriminator updates, each on new data, per generator update."""
    label_smoothing: tuple[float, float] = (0.0, 0.0)
    """Label smoothing of the discriminator's targets for real and for generated examples; 0.1 0 is one-sided."""
    weight_clip: float = 0.0
    """Weight clipping (WGAN): largest absolute value of a discriminator weight, after each of its updates; 0 for none."""
    gradient_penalty: float = 0.0
    """Weight of the gradient penalty (WGAN-GP), (|gradient| - 1)² between real and generated examples, in the discriminator's loss."""
    adversarial_weight: float = 1.0
    """Weight of the adversarial loss in the generator's loss; 0 leaves it to feature matching."""
    feature_matching: float = 0.0
    """Weight of feature matching in the generator's loss: the squared distance between mean features of real and generated examples."""
    historical_averaging: float = 0.0
    """Weight of historical averaging in both losses: the squared distance of each parameter to its mean over the run so far."""
    classification_weight: float = 0.0
    """Weight of the cross-entropy of labelled examples' classes, in the discriminator's loss; 0 uses no labels."""
    centres: tuple[float, ...] = ()
    """Centres of the data's modes one after another, where the data knows them, to count those that are generated."""
    spread: float = 0.0
    """Deviation around each centre; 0 takes it from the data."""

    def build(self) -> Adversarial:
        return Adversarial(self)


class Adversarial(Objective):
    def __init__(self, config: AdversarialConfig):
        super().__init__()
        self.config = c = check(config)
        self.classes = "label" if c.classification_weight else ""
        first = Turn("discriminator", ("discriminator",))
        self.turns = (*[first] * c.discriminator_steps, Turn("generator", ("generator",), fresh=False))
        self.weights = {
            "penalty": c.gradient_penalty,
            "matching": c.feature_matching,
            "history": c.historical_averaging,
            "label": c.classification_weight,
        }
        self.gan_loss = gan_loss(c.loss, c.label_smoothing)
        self.separable = not c.feature_matching
        self.compile = not c.gradient_penalty
        self.autocast = c.loss != "wasserstein"
        self.histories = nn.ModuleDict({turn.name: HistoricalAverage() for turn in self.turns} if c.historical_averaging else {})

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = count(len(batch["key"]), like=batch["key"])
        counts = {"loss": examples, "penalty": examples}
        counts["matching"] = counts["history"] = torch.ones_like(examples)
        if self.config.classification_weight:
            counts["label"] = counts["accuracy"] = labelled(batch["label"])
        return counts

    def forward(self, model: GAN, batch: Batch, turn: str) -> Terms:
        label = batch["label"] if getattr(model, "conditional", False) else None
        with torch.set_grad_enabled(torch.is_grad_enabled() and turn == "generator"):
            fake = draw(model, batch["key"], label)
        discriminate = model.discriminate if label is None else partial(model.discriminate, label=label)
        side = self._generator if turn == "generator" else self._discriminator
        terms = side(model, batch, fake, discriminate)
        if self.config.historical_averaging:
            terms.sums["history"] = self.histories[turn].distance(model.get_submodule(turn).named_parameters())  # type: ignore[operator]
        return terms

    def _discriminator(self, model: GAN, batch: Batch, fake: Tensor, discriminate: Part) -> Terms:
        c, x = self.config, batch[self.config.input]
        real, score = discriminate(x), discriminate(fake)  # (B,)
        metrics = {"real": real.detach().sum(), "fake": score.detach().sum()}
        if c.loss in ("non_saturating", "saturating"):
            metrics = {name: (real if name == "real" else score).detach().sigmoid().sum() for name in metrics}
        terms = Terms({"loss": (self.gan_loss.real(real) + self.gan_loss.fake(score)).sum()}, metrics)
        if c.gradient_penalty:
            terms.sums["penalty"] = gradient_penalty(discriminate, x, fake.view_as(x), batch["key"]).sum()
        if c.classification_weight:
            logits = model.classify(x)
            terms.sums["label"] = label_loss(logits, batch["label"])
            terms.metrics["accuracy"] = correct(logits, batch["label"])
        return terms

    def _generator(self, model: GAN, batch: Batch, fake: Tensor, discriminate: Part) -> Terms:
        sums: dict[str, Tensor] = {}
        if self.config.adversarial_weight:
            sums["loss"] = self.config.adversarial_weight * self.gan_loss.generator(discriminate(fake)).sum()
        if self.config.feature_matching:
            with torch.no_grad():
                wanted = model.features(batch[self.config.input])
            sums["matching"] = feature_matching_loss(wanted, model.features(fake))
        return Terms(sums)

    def after_update(self, model: nn.Module, turn: str) -> None:
        if self.config.weight_clip and turn == "discriminator":
            for weight in model.get_submodule("discriminator").parameters():
                weight.clamp_(-self.config.weight_clip, self.config.weight_clip)
        if self.config.historical_averaging:
            self.histories[turn].update(model.get_submodule(turn).named_parameters())  # type: ignore[operator]

    def measure(self, model: GAN, batch: Batch) -> dict[str, Tensor]:
        """Sums from which `summary` has how far apart real and generated examples lie."""
        label = batch["label"] if getattr(model, "conditional", False) else None
        fake = draw(model, batch["key"], label)
        if self.config.centres:
            return {"found": near_modes(fake, self.config.centres, self.config.spread)}
        return moments("real", batch[self.config.input].view_as(fake)) | moments("fake", fake)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means) | frechet(means, "discriminator_")
        if (found := means.get("discriminator_found")) is not None:
            numbers |= coverage(found)
        if "discriminator_accuracy" in numbers:
            numbers["accuracy"] = numbers["discriminator_accuracy"]
        return numbers


def check(config: AdversarialConfig) -> AdversarialConfig:
    """Refuse settings that cannot work."""
    if config.discriminator_steps < 1:
        raise ConfigError(f"--objective.discriminator_steps must be at least 1, not {config.discriminator_steps}")
    for name in (
        "weight_clip",
        "gradient_penalty",
        "adversarial_weight",
        "feature_matching",
        "historical_averaging",
        "classification_weight",
        "spread",
    ):
        if not 0 <= getattr(config, name) < float("inf"):
            raise ConfigError(f"--objective.{name} must not be negative, not {getattr(config, name)}")
    if not config.adversarial_weight and not config.feature_matching:
        raise ConfigError("the generator needs a loss; set --objective.adversarial_weight or --objective.feature_matching above 0")
    if any(config.label_smoothing) and config.loss not in ("non_saturating", "saturating"):
        raise ConfigError(f"--objective.label_smoothing needs a loss of log-odds, which {config.loss} is not; set it to 0 0")
    if not all(0 <= share < 1 for share in config.label_smoothing):
        raise ConfigError(f"--objective.label_smoothing must be two shares of at least 0 and below 1, not {config.label_smoothing}")
    return config


def draw(model: GAN, key: Tensor, label: Tensor | None) -> Tensor:
    """One generated example per key, of the given classes where there are any."""
    examples: Tensor = model.sample(key) if label is None else model.sample_class(key, label)
    return examples
