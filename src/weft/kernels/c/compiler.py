"""Functions in C, compiled for the processor at hand when they are first needed, where Linux has a compiler; kept in the user's cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

log = logging.getLogger("weft")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
WIDE = "-mprefer-vector-width=512"
"""For processors that have such registers; compilers are careful with them, as the first of these slowed down."""
PATIENCE = 120
"""Seconds that compiling may take."""


@functools.cache
def load(source: Path, defined: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """The functions of a file in C, which may ask what is defined; None where there is no compiler, and with a warning, where it fails."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None) if sys.platform.startswith("linux") else None
    if compiler is None:
        return None
    try:
        return _kept(source, compiler, defined)
    except (OSError, subprocess.SubprocessError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        lines = output.strip().splitlines() or [str(error)]
        reason = next((line for line in lines if "error" in line), lines[0])
        log.warning(f"{compiler} did not compile {source.name} ({reason}); torch does its work, more slowly")
        return None


def _kept(source: Path, compiler: str, defined: tuple[str, ...]) -> ctypes.CDLL:
    """Found by all that it is made from, the headers beside the source too, as it may include any of them."""
    processor, texts = _processor(), [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))]
    wide = [WIDE] if "avx512f" in processor.split() else []
    flags = [*FLAGS, *wide, *(f"-D{name}" for name in defined)]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    key = hashlib.sha256("\0".join([*flags, compiler, version, processor]).encode() + b"\0".join(texts)).hexdigest()
    name = f"{source.stem}-{key[:32]}.so"
    try:
        folder = _folder()
        if not (folder / name).exists():
            _compile(source, compiler, flags, folder / name)
        return ctypes.CDLL(str(folder / name))
    except (OSError, RuntimeError):  # there is none, it cannot be written, or nothing may be run from there
        with tempfile.TemporaryDirectory() as other:
            _compile(source, compiler, flags, Path(other) / name)
            return ctypes.CDLL(str(Path(other) / name))  # what is loaded stays, without its file


def _folder() -> Path:
    """Where compiled functions are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "weft"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _compile(source: Path, compiler: str, flags: list[str], to: Path) -> None:
    """Several processes may do so at once: each writes a file of its own, and the last that is renamed stays."""
    number, name = tempfile.mkstemp(suffix=".so", dir=to.parent)
    os.close(number)
    try:
        subprocess.run([compiler, *flags, str(source), "-o", name, "-lm"], capture_output=True, text=True, check=True, timeout=PATIENCE)
        os.replace(name, to)
    finally:
        Path(name).unlink(missing_ok=True)


def _processor() -> str:
    """What a processor knows, by which code for it may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    output = [line for line in lines if line.startswith(("flags", "Features", "model name", "CPU part"))]
    return " ".join([platform.machine(), *dict.fromkeys(output)])
