"""Checkpoints: folders of safetensors and JSON with a sha256 manifest, found, verified and chosen.

    RUN/recipe.json  run.json  metrics.jsonl  events…  report.html  checkpoints/00000500/
    checkpoint/      recipe.json  model.safetensors  [ema.safetensors]  [tokenizer.json]  metrics.json
                     training.safetensors  training.json  manifest.json  [chat_template.jinja, of a converted model]

Of several processes each writes its own tensors (tensors.py); read, they are whole again. Nothing is unpickled. A folder whose
manifest does not hold is damaged and never used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from weft.core import registry, renamed
from weft.core.errors import CheckpointError
from weft.core.untrusted import checked, natural, parse_json, parsing, read_json
from weft.training.checkpoint import files, tensors
from weft.training.checkpoint.tensors import LazyTensors, Renamed
from weft.training.checkpoint.tensors import pack as pack
from weft.training.checkpoint.verified import read_file, read_manifest
from weft.training.parallel.team import SINGLE_PROCESS, Team, copy

FORMAT = 4
INFERENCE = ("recipe.json", "model.safetensors", "ema.safetensors", "tokenizer.json", "metrics.json", "chat_template.jinja")
STEP = re.compile(r"[0-9]{1,18}")
"""The name of a checkpoint's folder in a run."""
T = TypeVar("T")
log = logging.getLogger("weft")


@dataclass
class Checkpoint:
    """The verified content of a checkpoint folder."""

    path: Path
    files: dict[str, Any]
    """bytes or, of a file of tensors, its content mapped into memory (Renamed, where its names were others)."""

    def json(self, name: str) -> Any:
        if name not in self.files:
            raise CheckpointError(f"{self.path}: holds no {name}")
        with parsing(f"{self.path}: {name}", CheckpointError):
            return parse_json(self.files[name], finite=False)

    def lazy(self, name: str) -> LazyTensors:
        """The whole tensors that all processes have written into files of this name, each made when it is asked for."""
        return tensors.wholes((data for file, data in self.files.items() if tensors.kind(file) == name), f"{self.path}: {name}")

    def tensors(self, name: str) -> dict[str, Tensor]:
        """All of them."""
        return dict(self.lazy(name))


def encode(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def name_binarisation(content: dict[str, bytes]) -> dict[str, bytes]:
    """Format 1 said of digits only whether they are binary; format 2 says how they become so."""
    if "recipe.json" not in content:
        return content
    recipe = parse_json(content["recipe.json"], finite=False)
    if isinstance(recipe, dict) and isinstance(data := recipe.get("data"), dict) and "binary" in data:
        data["binarise"] = "threshold" if data.pop("binary") else "none"
    return {**content, "recipe.json": encode(recipe)}


def rename(content: dict[str, Any]) -> dict[str, Any]:
    """Format 4 has other names of settings, tokenizers and parameters."""
    recipe = parse_json(content["recipe.json"], finite=False) if "recipe.json" in content else {}
    new_name = renamed.parameters(recipe.get("model") if isinstance(recipe, dict) else None)
    found = {name: Renamed(data, new_name) if name.endswith(".safetensors") else data for name, data in content.items()}
    for name, change in {"recipe.json": renamed.recipe, "tokenizer.json": renamed.tokenizer}.items():
        if name in content:
            found[name] = encode(change(parse_json(content[name], finite=False)))
    return found


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: name_binarisation, 2: dict, 3: rename}
"""From format n to n + 1, one function each. Format 3 may have several files of a kind; with one it is format 2."""


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], place: str, team: Team = SINGLE_PROCESS) -> None:
    """Copy weights into a model; a missing or unknown name is an error, a shared tensor may be named once."""
    own = model.state_dict()
    unknown = sorted(set(weights) - set(own) - team.names)
    storages = {name: team.to_local(value).data_ptr() for name, value in own.items()}
    loaded = {storages[name] for name in weights if name in own}
    missing = sorted(name for name in own if name not in weights and storages[name] not in loaded)
    wrong = sorted(name for name in weights if name in own and weights[name].shape != own[name].shape)
    if unknown or missing or wrong:
        found = {"unknown": unknown, "missing": missing, "other shape": wrong}
        parts = [f"{what} {', '.join(names[:4])}" for what, names in found.items() if names]
        raise CheckpointError(f"{place}: the weights do not fit the model: {'; '.join(parts)}; they are those of a model of other settings")
    copy(own, weights, team)


def save(path: Path, content: dict[str, bytes], team: Team = SINGLE_PROCESS) -> None:
    """Write a checkpoint folder, whole or not at all: each process its own files, then the first the manifest of all.

    Where one process cannot write, all raise what it says.
    """
    folder = files.temporary_name(path, "tmp", team.main_pid)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    try:
        gathered = all_ranks(team, lambda: files.add(folder, content), sums)
        manifest: dict[str, Any] = {"format": FORMAT, "files": {name: digest for part in gathered for name, digest in part.items()}}
        manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()

        def end() -> None:
            if team.first:
                files.add(folder, {"manifest.json": encode(manifest)})
                files.put(folder, path)

        all_ranks(team, end)
    except BaseException:
        if team.first:
            files.delete(folder)
        raise


def all_ranks(team: Team, act: Callable[[], None], thing: Any = None) -> list[Any]:
    """Do something that may fail in one process, and let all know: what each of them has to say, or that process's error in all."""
    trouble: OSError | None = None
    try:
        act()
    except OSError as error:
        trouble = error
    gathered = team.all_gather_object((thing, trouble))
    for _, failed in gathered:
        if failed:
            raise failed
    return [own for own, _ in gathered]


def read(path: Path, only: tuple[str, ...] | None = None) -> Checkpoint:
    """Read and verify a checkpoint (or only some of its files); anything wrong is a CheckpointError naming the file."""
    manifest = read_manifest(path, FORMAT)
    version, content = manifest["format"], {}
    for name, expected in manifest["files"].items():
        if only is None or tensors.kind(name) in only or (version < FORMAT and name == "recipe.json"):  # an upgrade asks it
            content[name] = read_file(path, name, expected)
    with parsing(f"{path}: its files of format {version}", CheckpointError):
        while version < FORMAT:
            content, version = UPGRADES[version](content), version + 1
    return Checkpoint(path, {name: data for name, data in content.items() if only is None or tensors.kind(name) in only})


def folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"{step:08d}"


def folders(run: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first."""
    return sorted((p for p in (run / "checkpoints").glob("[0-9]*") if STEP.fullmatch(p.name)), key=lambda p: int(p.name))


def newest(run: Path, below: int | None = None) -> Checkpoint | None:
    """The newest undamaged checkpoint, of those below a step where one is given; None for a run that never saved.

    An error where all are damaged or gone.
    """
    candidates = folders(run)
    last = saved_step(run)
    if last is not None and last > max((int(path.name) for path in candidates), default=-1):
        log.warning("%s is gone; trying another", folder(run, last))
    for path in candidates[::-1]:
        if below is None or int(path.name) < below:
            try:
                return read(path)
            except CheckpointError as error:
                log.warning("%s; trying another", error)
    if not candidates and last is None:
        return None
    raise CheckpointError(
        f"{run}: no usable checkpoint is left ({len(candidates)} damaged, the run had saved before). "
        "Restore one from a backup, or start over in another folder with --out"
    )


def mark_saved(run: Path, step: int) -> None:
    """Note that this run has saved, so that losing a checkpoint is noticed."""
    files.replace(run / "run.json", encode({"saved": step}))


def saved_step(run: Path) -> int | None:
    """The last step that was saved; None for a run that never saved, 0 where the note cannot be read."""
    try:
        saved: int = checked(read_json(run / "run.json"), {"saved": natural})["saved"]
        return saved
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return 0


def is_best(path: Path) -> bool:
    try:
        return bool(checked(read_json(path / "metrics.json", finite=False), {"best": bool})["best"])
    except (OSError, ValueError):
        return False


def prune(run: Path, keep: int, step: int) -> None:
    """Keep the newest few up to a step, and the newest best; later ones were found damaged and do not count."""
    candidates = [path for path in folders(run) if int(path.name) <= step]
    best = [path for path in candidates if is_best(path)][-1:]
    for path in candidates[: -max(keep, 1)]:
        if path not in best:
            files.remove_folder(path)


def find(name: str | Path) -> Checkpoint:
    """What inference needs of the checkpoint that a name means; of `RUN@average5`, the mean weights of the last five."""
    return find_usable(name, lambda found: found)


def find_usable(name: str | Path, use: Callable[[Checkpoint], T]) -> T:
    """What `use` makes of the checkpoint of `find`; one that it refuses by a CheckpointError gives way to another of the run."""
    run, _, which = str(name).rpartition("@")
    if run and not Path(name).exists() and (number := which.removeprefix("average")).isdecimal() and number != which:
        return use(average(str(name), Path(run), int(number)))
    *several, last = candidates_of(name)
    for path in several:
        try:
            return use(read(path, INFERENCE))
        except CheckpointError as error:
            log.warning("%s; trying another", error)
    return use(read(last, INFERENCE))


def average(name: str, run: Path, number: int) -> Checkpoint:
    """The mean weights of the last few checkpoints of a run, with all else of the last."""
    paths = folders(run)
    if not 1 <= number <= len(paths):
        raise CheckpointError(f"{name}: {len(paths)} checkpoints are kept; --train.keep_checkpoints says how many")
    found = [read(path, only=INFERENCE) for path in paths[-number:]]
    with parsing(name, CheckpointError):
        mean = {name: tensor.double() for name, tensor in found[0].tensors("model.safetensors").items()}
        kinds = {name: tensor.dtype for name, tensor in found[0].tensors("model.safetensors").items()}
        for other in found[1:]:
            for name, tensor in other.tensors("model.safetensors").items():
                mean[name] += tensor.double()
    weights = pack({name: (total / len(found)).to(kinds[name]) for name, total in mean.items()})
    content = {name: data for name, data in found[-1].files.items() if not name.endswith(".safetensors")}
    return Checkpoint(found[-1].path, {**content, "model.safetensors": weights})


def without_checkpoint(path: str) -> str:
    """Why there is no checkpoint, and what to do."""
    if path in registry.RECIPES and not Path(path).exists():
        return f"is a recipe; train it with: weft train {path}, and name its run, runs/{path.replace('/', '-')}"
    if Path(path).is_file():
        return "is a file; a run is named by its folder, such as runs/gpt-text"
    return f"no checkpoint here; train one with: weft train RECIPE --out {path}"


def resolve(name: str | Path) -> Path:
    """The checkpoint folder that `RUN`, `RUN@last`, `RUN@1000` or a checkpoint's own path means."""
    return candidates_of(name)[0]


def candidates_of(name: str | Path) -> list[Path]:
    """As `resolve`; of a run, followed by those that stand in where that one is damaged."""
    text = str(name)
    path, _, which = text.rpartition("@") if "@" in Path(text).name and not Path(text).exists() else (text, "", "")
    run = Path(path)
    if (run / "manifest.json").exists():
        return [run]
    candidates = folders(run)[::-1]
    if not candidates and ((run / "config.json").is_file() or (run.suffix == ".gguf" and run.is_file())):
        raise CheckpointError(f"{text}: holds a model of another project; make it one of ours first: weft convert {text} runs/NAME")
    if not candidates:
        raise CheckpointError(f"{text}: {without_checkpoint(path)}")
    if which and which != "last":
        match = [p for p in candidates if STEP.fullmatch(which) and int(p.name) == int(which)]
        if not match:
            steps = ", ".join(str(int(p.name)) for p in reversed(candidates))
            raise CheckpointError(f"{text}: no checkpoint of step {which}; there are {steps}")
        return match
    best = [p for p in candidates if is_best(p) and not which][:1]
    return best + [p for p in candidates if p not in best]
