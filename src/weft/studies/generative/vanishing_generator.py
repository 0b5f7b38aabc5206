"""The better the discriminator, the less it teaches the generator, by one loss at least (Arjovsky & Bottou, 2017, arXiv:1701.04862).

A discriminator is trained alone against a fixed generator on digits. Beside its accuracy stands the norm of the generator's gradient
by log(1 - D), which dies, by -log D, and by a critic with a gradient penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from weft.core.config import Config
from weft.data.base import Batch, DataLoader
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.objectives.generative.gan_losses import GAN_LOSSES
from weft.recipes.base import recipe as find_recipe
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    steps: int = 200
    """Updates of the discriminator alone."""
    batch: int = 128
    """Examples of each update."""
    lr: float = 1e-3
    """Rate of Adam."""
    seed: int = 1
    """Of the weights, the order and the noise."""


Row = tuple[int, float, float]
"""(step, accuracy of the discriminator, norm of the generator's gradient)."""


def follow(settings: Settings, loss: str) -> list[Row]:
    """Train a discriminator alone; every tenth of the way, its accuracy and the generator's gradient."""
    recipe = find_recipe("gan/digits", {"model.dropout": 0.0})
    data = recipe.data.build()
    torch.manual_seed(settings.seed)
    model = recipe.resolve(data.info).model.build()
    objective = AdversarialConfig(loss=loss, gradient_penalty=10.0 if loss == "wasserstein" else 0.0).build()  # type: ignore[arg-type]
    source = DataLoader(data.train, settings.seed, torch.device("cpu"))
    optimizer = torch.optim.Adam(model.discriminator.parameters(), lr=settings.lr)  # type: ignore[union-attr]
    found: list[Row] = []
    for step in range(settings.steps + 1):
        batch = source.batch(step * settings.batch, settings.batch)
        if step % max(1, settings.steps // 20) == 0:
            found.append((step, accuracy(model, batch), slope(model, batch, loss)))
        terms = objective(model, batch, "discriminator").sums
        optimizer.zero_grad()
        sum(objective.weights.get(name, 1.0) * value / settings.batch for name, value in terms.items()).backward()
        optimizer.step()
    return found


@torch.no_grad()
def accuracy(model: torch.nn.Module, batch: Batch) -> float:
    """Share of real above and generated below what divides them best on average: 0 of the odds, or the mean of a critic's values."""
    real, fake = model.discriminate(batch["image"]), model.discriminate(model.sample(batch["key"]))  # type: ignore[operator]
    middle = (real.mean() + fake.mean()) / 2
    return float(((real > middle).float().mean() + (fake < middle).float().mean()) / 2)


def slope(model: torch.nn.Module, batch: Batch, loss: str) -> float:
    """Norm of the generator's gradient."""
    weights = list(model.generator.parameters())  # type: ignore[union-attr]
    score = model.discriminate(model.sample(batch["key"]))  # type: ignore[operator]
    parts = torch.autograd.grad(GAN_LOSSES[loss].generator(score).mean(), weights)
    return float(torch.cat([part.flatten() for part in parts]).norm())


def study(settings: Settings) -> Finding:
    """The generator's gradient beside the discriminator's accuracy, for three losses."""
    names = {"saturating": "log(1 - D)", "non_saturating": "-log D", "wasserstein": "critic with a gradient penalty"}
    found = {title: follow(settings, loss) for loss, title in names.items()}
    slopes = [Curve(name, [(step, max(norm, 1e-12)) for step, _, norm in rows], f"c{i}") for i, (name, rows) in enumerate(found.items())]
    right = [Curve(name, [(step, share) for step, share, _ in rows], f"c{i}") for i, (name, rows) in enumerate(found.items())]
    figure = chart("norm of the generator's gradient, by steps of the discriminator alone", slopes, tall=True, log=True)
    figure += chart("accuracy of the discriminator", right, tall=True)
    table = tuple((name, f"{rows[0][2]:.3g}", f"{rows[-1][2]:.3g}", f"{rows[-1][1]:.3f}") for name, rows in found.items())
    start, end = found["log(1 - D)"][0], found["log(1 - D)"][-1]
    claim = f"While the discriminator goes from {start[1]:.2f} to {end[1]:.2f} right, the generator's gradient by log(1 - D) falls"
    claim += f" from {start[2]:.2g}"
    claim += (
        f" to {end[2]:.2g}; by -log D it is {found['-log D'][-1][2]:.2g} at the end, by a critic {found[names['wasserstein']][-1][2]:.2g}."
    )
    return Finding(
        "When the discriminator wins", claim, ("generator's loss", "gradient at first", "at the end", "accuracy at the end"), table, figure
    )
