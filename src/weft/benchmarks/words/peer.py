"""A process with gensim, asked by lines of JSON. Its Python is named: gensim is no dependency of weft."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from weft.core.errors import DataError

SCRIPT = Path(__file__).with_name("gensim_peer.py")


class Peer:
    def __init__(self, python: str):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | threads
        try:
            self.process = subprocess.Popen([python, str(SCRIPT)], stdin=-1, stdout=-1, text=True, env=environment)
        except OSError as error:
            raise DataError(f"--gensim {python}: {error.strerror}; name the Python of an environment that has gensim") from None

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to a question."""
        assert self.process.stdin and self.process.stdout
        try:
            print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            raise DataError(f"the process with gensim ended at {do!r}; its message stands above") from None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
