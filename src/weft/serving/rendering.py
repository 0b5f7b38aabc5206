"""Renders chat templates: as a function, and as a process that reads a request a line and writes an answer a line.

The process limits itself before it sees a template: its memory, no files written, and whoever started it watches the time.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from weft.core.errors import DataError, require

MEMORY = 512 << 20
LONGEST = 8 << 20
"""Characters of a prompt."""


def render(source: str, variables: Mapping[str, Any]) -> str:
    """The text a template makes; anything wrong with it is a DataError."""
    try:
        text: str = compiled(source).render(**variables)
    except DataError:
        raise
    except Exception as error:  # a template is a program, so it may fail in any way
        raise DataError(f"{type(error).__name__}: {error}"[:300]) from error
    if len(text) > LONGEST:
        raise DataError(f"it made a prompt of {len(text):,} characters")
    return text


@lru_cache(maxsize=16)
def compiled(source: str) -> Any:
    sandbox = require("jinja2.sandbox", "serve")
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = to_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": now}
    return environment.from_string(source)


def refuse(message: Any) -> NoReturn:
    """How templates say that they cannot use a conversation."""
    raise DataError(str(message)[:300])


def now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def to_json(value: Any, indent: int | None = None) -> str:
    """As transformers has it: jinja2's own would escape letters for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def limit() -> None:
    try:
        import resource
    except ImportError:  # no such limits on this system; the time is watched all the same
        return
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS refuses a limit on addresses
            resource.setrlimit(kind, (most, most))


def main() -> None:
    require("jinja2.sandbox", "serve")  # while there is memory for it
    limit()
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
            found = {"text": render(request["template"], request["variables"])}
        except (DataError, MemoryError, ValueError) as error:
            found = {"error": str(error) or type(error).__name__}
        sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
