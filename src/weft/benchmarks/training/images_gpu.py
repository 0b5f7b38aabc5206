"""Training speed of a VAE and a DCGAN, against plain loops over the same networks, eager and compiled, all in one run.

Run: python -m weft bench images-gpu [--models vae dcgan] [--steps 200] [--record results/images_gpu.json]
The plain loops are what one writes by hand: images on the device, bf16 autocast, a fused Adam, nothing captured; the DCGAN's uses what
was generated for the discriminator again for the generator. That the loss is the same is checked in fp32, on twenty steps from the same
weights, batches and noise: two networks that play against each other make what bf16 rounds larger with every step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import timed
from weft.core import random
from weft.core.config import override
from weft.data.base import DataLoader, TensorDataset
from weft.data.images.pixels import ImagesConfig
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.training import execution
from weft.training.optimizer.settings import Adam
from weft.training.trainer import Trainer

Given = dict[str, Tensor]
"""What a plain step is given: image, and noise of each turn where it must be the trainer's."""
Step = Callable[[Given], Tensor]
RATE, BETAS = 2e-4, (0.5, 0.999)
IMAGES = 8192


@dataclass(frozen=True)
class Contest:
    recipe: Recipe
    shape: tuple[int, int, int]
    loop: Callable[[Any, bool, bool], Step]
    """A model, whether to compile, and whether products are of bf16 on a GPU -> the plain step."""


def adam(module: nn.Module) -> torch.optim.Optimizer:
    cuda = next(module.parameters()).is_cuda
    return torch.optim.Adam(module.parameters(), lr=RATE, betas=BETAS, fused=cuda)


def autocast(image: Tensor, half: bool) -> torch.autocast:
    return torch.autocast(image.device.type, torch.bfloat16, enabled=half and image.is_cuda)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def vae_loop(model: Any, compiled: bool, half: bool) -> Step:
    optimizer = adam(model)

    def loss_of(x: Tensor, noise: Tensor) -> Tensor:
        mean, log_variance = model.encode(x)
        made = model.decode(mean + (0.5 * log_variance).exp() * noise)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        loss: Tensor = (kl - made.log_prob(x.flatten(1)).sum(1)).mean()
        return loss

    run = torch.compile(loss_of) if compiled else loss_of

    def step(given: Given) -> Tensor:
        x = given["image"]
        noise = given["noise0"] if "noise0" in given else torch.randn(len(x), model.config.latent, device=x.device)
        with autocast(x, half):
            loss = run(x, noise)
        update(optimizer, loss)
        return loss.detach()

    return step


def dcgan_loop(model: Any, compiled: bool, half: bool) -> Step:
    first, second = adam(model.discriminator), adam(model.generator)
    generate, discriminate = (
        (torch.compile(model.forward), torch.compile(model.discriminate)) if compiled else (model.forward, model.discriminate)
    )

    def step(given: Given) -> Tensor:
        x = given["image"]
        with autocast(x, half):
            made = generate(given["noise0"] if "noise0" in given else torch.randn(len(x), model.latent, device=x.device))
            loss = (F.softplus(-discriminate(x)) + F.softplus(discriminate(made.detach()))).mean()
        update(first, loss)
        with autocast(x, half):
            made = generate(given["noise1"]) if "noise1" in given else made
            passing = F.softplus(-discriminate(made)).mean()
        update(second, passing)
        return loss.detach()

    return step


def prepared(name: str, changes: dict[str, Any]) -> Recipe:
    """The recipe with one plain Adam, as the loops have it."""
    recipe, rate = find_recipe(name, changes), Adam(lr=RATE, betas=BETAS)
    optim = dict.fromkeys(recipe.optim, rate) if isinstance(recipe.optim, dict) else rate
    return override(recipe, {"optim": optim, "train.ema": 0.0, "train.log_every": 100_000})


CONTESTS: dict[str, Callable[[], Contest]] = {
    "vae": lambda: Contest(prepared("vae/mnist", {"data.binarise": "threshold"}), (1, 28, 28), vae_loop),
    "dcgan": lambda: Contest(prepared("dcgan/cifar10", {"data.augment.flip": 0.0}), (3, 32, 32), dcgan_loop),
    "toy": lambda: Contest(prepared("dcgan/mnist", {"model.width": 4, "model.latent": 8, "train.batch": 16}), (1, 8, 8), dcgan_loop),
}


def ours(contest: Contest, changes: dict[str, Any]) -> Trainer:
    """The trainer as `weft train` would make it, on random images."""
    made = override(contest.recipe, changes)
    assert isinstance(made.data, ImagesConfig)
    pixels = torch.randint(0, 256, (IMAGES, *contest.shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    facts = {"image": contest.shape, "features": pixels[0].numel(), "classes": 10}
    resolved = made.resolve(facts)
    torch.manual_seed(0)
    model, objective = resolved.model.build(), resolved.objective.build()
    plan = execution.choose(resolved.train, model, objective, resolved.optim)
    source = DataLoader(TensorDataset({"image": pixels}, made.data.transform(pixels)), resolved.train.seed, plan.device)
    return Trainer(model, objective, source, resolved.train, resolved.optim, plan)  # type: ignore[arg-type]


def theirs(contest: Contest, trainer: Trainer, compiled: bool, half: bool = True) -> Step:
    """The plain step over a copy of the trainer's model."""
    model = trainer.model.config.build().to(trainer.plan.device)  # type: ignore[operator, union-attr]
    model.load_state_dict(trainer.model.state_dict())
    return contest.loop(model.train(), compiled, half)


def fresh(source: DataLoader, batch: int) -> Callable[[], Given]:
    """Random images of the device, made as by hand."""
    assert isinstance(source.dataset, TensorDataset)
    pixels, transform = source.dataset.tensors["image"], source.dataset.transform
    assert transform is not None

    def draw() -> Given:
        index = torch.randint(len(pixels), (batch,), device=pixels.device)
        return transform({"image": pixels[index]}, index)

    return draw


def same_loss(contest: Contest, steps: int = 20) -> tuple[float, float, list[float]]:
    """Last losses of trainer and plain loop on the same batches and noise, and how far apart they were at each step, as a share."""
    trainer = ours(contest, {"train.compile": "off", "train.precision": "fp32"})
    step, batch = theirs(contest, trainer, compiled=False, half=False), trainer.settings.batch
    pairs = []
    for number in range(steps):
        given = dict(trainer.source.batch(number * batch, batch))
        for index, turn in enumerate(trainer.objective.turns):
            key = trainer.source.batch(number * batch, batch, index)["key"]
            given[f"noise{index}"] = random.normal(random.fold(key, "noise" if turn.name else "code"), contest.recipe.model.latent)  # type: ignore[attr-defined]
        trainer.means.clear()
        trainer.run_step()
        numbers = trainer.means.read()
        with trainer.plan.tf32():  # else convolutions of the plain loop alone would round to 10 bits
            other = float(step(given))
        pairs.append((numbers["discriminator_loss" if "discriminator_loss" in numbers else "loss"], other))
    return *pairs[-1], [abs(a - b) / abs(b) for a, b in pairs]


def contend(name: str, steps: int) -> dict[str, Any]:
    """Step times of the trainer and of both plain loops, and whether the loss is the same."""
    contest = CONTESTS[name]()
    trainer = ours(contest, {})
    compiles = trainer.plan.compile
    batch = fresh(trainer.source, trainer.settings.batch)
    row: dict[str, Any] = {"model": name, "batch": trainer.settings.batch, "weft_ms": timed(trainer.run_step, steps, warm=15)}
    for kind, compiled in (("eager", False), ("compiled", True)):
        step = theirs(contest, trainer, compiled and compiles)
        row[f"{kind}_ms"] = timed(lambda step=step: step(batch()), steps, warm=15)  # type: ignore[misc]
        row[f"times_{kind}"] = row[f"{kind}_ms"] / row["weft_ms"]
    mine, other, apart = same_loss(contest)
    return {**row, "losses": (mine, other), "apart": max(apart), "apart_by_step": apart, "plan": trainer.plan.lines()}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "images-gpu")
    parser.add_names("--models", CONTESTS, nargs="+", default=["vae", "dcgan"])
    parser.add_argument("--steps", type=at_least(1), default=200)
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.models:
        rows.append(contend(name, options.steps))
        print(json.dumps(rows[-1]), flush=True)
    if options.record:
        write_record(options.record, measurements(rows, ("model", "batch")), **parser.run(options))


if __name__ == "__main__":
    main()
