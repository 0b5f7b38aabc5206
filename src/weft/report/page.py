"""The document around the parts of a page: style, script and drawings are all inside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from weft import __version__

QUIET = ("lr", "grad_norm", "per_second", "mfu", "refused_updates")
"""Numbers about the training itself, shown after the metrics."""


def page(name: str, parts: Sequence[str]) -> str:
    """The whole document."""
    inside = resources.files("weft.report")
    style, script = (inside.joinpath(file).read_text(encoding="utf-8") for file in ("page.css", "page.js"))
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)} · weft</title><style>\n{style}</style></head>\n<body><main>\n{body}\n"
        f"<footer>made by weft {__version__}</footer></main>\n<script>\n{script}</script></body></html>\n"
    )
