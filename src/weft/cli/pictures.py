"""`weft sample` for models of images and of points: drawn, interpolated, inpainted, translated."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.images.image_files import image_shape, read_images
from weft.models.base import Inpaints, SamplesClass, need
from weft.report import plane
from weft.runs.load import Loaded
from weft.training.checkpoint import files
from weft.visual import detections, latent_interpolation
from weft.visual.grids import class_number, draw, png, pngs
from weft.visual.inpainting import MASKS, inpaint, known_part

IMAGES, POINTS = 64, 2000
DETECTED = 16
TOGETHER = 16
"""Images translated at once."""


def drawn(loaded: Loaded, n: int, seed: int, label: str, latents: str, out: str) -> int:
    """A sheet of images, or the points that a model of the plane or the line draws."""
    what = f"-{quote(label, safe='')}" if label else f"-{latents}" if latents != "none" else ""
    if numbers := plane.dimensions(loaded.recipe.model):
        if what:
            kind = "points" if numbers > 1 else "numbers"
            raise ConfigError(f"--label and --latents are for images, and {type(loaded.model).__name__} draws {kind}")
        where = target(loaded, f"-seed{seed}.svg", out, ".svg")
        return write(plane.drawn(draw(loaded.model, n or POINTS, seed)).encode(), where)
    where = target(loaded, f"{what}-seed{seed}.png", out, ".png")  # what is wrong with it is said before the work is done
    return write(png(pictures(loaded, n, seed, label, latents), columns=latent_interpolation.STEPS if latents != "none" else 0), where)


def target(loaded: Loaded, name: str, out: str, suffix: str) -> Path:
    """Where to write: what was asked for, or a file among the run's samples."""
    if out and Path(out).suffix.lower() != suffix:
        raise ConfigError(f"--out {out}: what is drawn is written as {suffix[1:].upper()}; give the file a name that ends in {suffix}")
    run = loaded.path.parent.parent if loaded.path.parent.name == "checkpoints" else loaded.path.parent
    found = Path(out) if out else run / "samples" / f"{loaded.path.name}{name}"
    files.check_file(found)
    return found


def write(content: bytes, path: Path) -> int:
    files.deliver(path, content)
    print(f"written to {path}")
    return 0


def pictures(loaded: Loaded, n: int, seed: int, label: str, latents: str) -> Tensor:
    """Images drawn as asked for, (N, ...)."""
    if latents == "none":
        if label:
            need(loaded.model, SamplesClass)
        names, classes = getattr(loaded.tokenizer, "names", []), getattr(loaded.recipe.model, "classes", 0)
        return draw(loaded.model, n or IMAGES, seed, class_number(label, names, classes) if label else None)
    if label:
        raise ConfigError("--label and --latents do not go together; choose one of them")
    rows = max(1, -(-n // latent_interpolation.STEPS)) if n else 8
    return (latent_interpolation.interpolate if latents == "interpolate" else latent_interpolation.traverse)(loaded.model, rows, seed=seed)


def inpainted(loaded: Loaded, prompts: list[str], place: str, mask: str, n: int, seed: int, out: str) -> int:
    """A row for each image: what was left of it, then what the model makes of it."""
    if prompts:
        raise ConfigError(f"--inpaint names the images, so there is no room for {' '.join(prompts)!r}")
    need(loaded.model, Inpaints)
    shape = image_shape(loaded.recipe.model)
    where = target(loaded, f"-inpaint-{quote(Path(place).stem, safe='')}-seed{seed}.png", out, ".png")
    _, pixels = read_images(place, shape)
    rows = inpaint(loaded.model, torch.from_numpy(pixels), known(mask, shape), n, seed)
    return write(png(rows.flatten(0, 1), columns=n + 1), where)


def known(mask: str, shape: tuple[int, int, int]) -> Tensor:
    """What is known (H, W) of an image: all but a named part, or what is not white in an image file."""
    _, height, width = shape
    if mask in MASKS:
        return known_part(mask, height, width)
    if not Path(mask).expanduser().is_file():
        raise ConfigError(f"--mask: expected {', '.join(MASKS)} or an image file that is white where something is missing, not {mask!r}")
    _, pixels = read_images(mask, (1, height, width))
    missing = torch.from_numpy(pixels[0, 0] >= 0.5)
    if not missing.any():
        raise ConfigError(f"--mask {mask}: no pixel of it is white, so nothing is missing")
    return ~missing


def translated(loaded: Loaded, prompt: str, place: str, direction: str, out: str) -> int:
    """Every image translated into a file of the same name in a folder."""
    if prompt or not place:
        given = f", but was given {prompt!r}" if prompt else ""
        raise ConfigError(f"{type(loaded.model).__name__} translates images: --input FILE_OR_FOLDER --out FOLDER{given}")
    if not out or Path(out).is_file():
        raise ConfigError(f"--out must name a folder to write the translated images to{f', and {out} is a file' if out else ''}")
    model, config = loaded.model, loaded.recipe.model
    shape = tuple(getattr(config, "source_image", ()) or getattr(config, "image", ()))
    paths, pixels = read_images(place, shape, squash=True)
    targets = names_in(Path(place).expanduser(), paths, Path(out))
    source, device = torch.from_numpy(pixels), next(model.parameters()).device
    for first in range(0, len(paths), TOGETHER):
        with torch.no_grad():
            made = model.translate(source[first : first + TOGETHER].to(device), direction)  # type: ignore[operator]
        for path, content in zip(targets[first : first + TOGETHER], pngs(made), strict=True):
            files.deliver(path, content)
    print(f"{len(paths):,} {'images' if len(paths) > 1 else 'image'} translated into {out}")
    return 0


def detected(loaded: Loaded, prompt: str, n: int, place: str, out: str) -> int:
    """Images that were not trained on, or those of a file or folder, with a frame around every object that is found."""
    if prompt:
        raise ConfigError(f"{type(loaded.model).__name__} looks for objects in images: --input FILE_OR_FOLDER, and no prompt {prompt!r}")
    where = target(loaded, "-boxes.png", out, ".png")
    device = next(loaded.model.parameters()).device
    if place:
        images = torch.from_numpy(read_images(place, tuple(loaded.recipe.model.image), squash=True)[1])  # type: ignore[attr-defined]
    else:
        held = loaded.recipe.data.build().validation
        if held is None:
            raise ConfigError("the data of this recipe keep no images for validation; name some with --input")
        index = torch.arange(min(n or DETECTED, len(held)))
        images = held.batch(index, index)["image"]
    return write(png(detections.detected(loaded.model, images[: n or len(images)].to(device))), where)  # type: ignore[arg-type]


def names_in(place: Path, paths: list[Path], folder: Path) -> list[Path]:
    """Where the translation of each image goes: a PNG in the same subfolder, under the same name."""
    found = [(folder / (path.relative_to(place) if place.is_dir() else path.name)).with_suffix(".png") for path in paths]
    if twice := next((path for path in found if found.count(path) > 1), None):
        raise ConfigError(f"--input {place}: two images would both be translated into {twice}; rename one of them")
    return found
