"""The page at `/` and its files: plain HTML, CSS and ES modules, sent as they lie in the folder `page`."""

from __future__ import annotations

import importlib.resources

from fastapi import APIRouter, Response

from weft.serving.errors import ApiError

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOLDER = importlib.resources.files("weft.serving").joinpath("page")
FILES = {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name.endswith(tuple(TYPES))}
PATHS = tuple(f"/page/{name}" for name in FILES)
"""Addresses of the files, which like the page itself need no key."""
HEADERS = {
    # nothing from elsewhere, and no script or style inside the page: a model's text can do no harm even where it is not escaped
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        return sent("index.html")

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in FILES:
            raise ApiError(404, f"the page has no file {name!r}")
        return sent(name)

    return router


def sent(name: str) -> Response:
    return Response(FILES[name], media_type=TYPES[name[name.rindex(".") :]], headers=HEADERS)
