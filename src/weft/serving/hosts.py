"""By which names a server may be called, and from which pages: what keeps other sites away that somebody looks at in a browser.

A site can have its own name lead to 127.0.0.1 (DNS rebinding); the browser then takes the server for a part of that site. Addresses and
loopback names cannot be used so, as nobody else can have a page under them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from weft.serving.errors import ApiError

AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]*))(?::[0-9]*)?")
LONGEST = 100
"""Characters of a name that an error repeats."""


def check_host(headers: Mapping[bytes, bytes], allowed: Sequence[str]) -> None:
    """Refuse a request that calls the server by a name that is not its own, or comes from a page of another site."""
    if "*" in allowed:
        return
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host and not is_own(host, allowed):
        raise refused("host", f"this server is not called {host[:LONGEST]!r}", name_of(host))
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    authority = origin.partition("://")[2]
    if origin and authority != host and not (authority and name_of(authority) in names(allowed)):
        raise refused("origin", f"pages of {origin[:LONGEST]!r} may not use this server", name_of(authority))


def is_own(host: str, allowed: Sequence[str]) -> bool:
    name = name_of(host)
    if name == "localhost" or name.endswith(".localhost") or name in names(allowed):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def names(allowed: Sequence[str]) -> list[str]:
    return [name.lower().rstrip(".") for name in allowed]


def name_of(authority: str) -> str:
    """Of name:port, [address]:port, or either without a port; all of anything else."""
    found = AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]).rstrip(".") if found else authority


def refused(what: str, said: str, name: str) -> ApiError:
    fix = f"start it with --allowed-hosts {name[:LONGEST]}, or with an --api-key" if name else "start it with an --api-key"
    return ApiError(403, f"{said}; if it is meant to be so, {fix}", code=f"{what}_not_allowed")
