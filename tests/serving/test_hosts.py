"""Names by which a server may be called, and pages that may use it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service

REBOUND = {"host": "evil.example", "origin": "http://evil.example"}


@pytest.fixture(scope="module")
def named() -> Iterator[Live]:
    """A server that has a name beside its address."""
    service = toy_service()
    service.hosts = ("models.example.org",)
    with running(service) as found:
        yield found


def ask(live: Live, **headers: str) -> httpx.Response:
    return live.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 2, "temperature": 0}, headers=headers)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "a.localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8000", "192.168.1.7"])
def test_addresses_and_loopback_names_are_its_own(live: Live, host: str) -> None:
    assert ask(live, host=host).status_code == 200
    assert ask(live, host=host, origin=f"http://{host}").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "[::1].evil", "a b"])
@pytest.mark.parametrize("path", ["/v1/models", "/", "/health", "/nothing"])
def test_another_name_is_refused_everywhere(live: Live, host: str, path: str) -> None:
    """DNS rebinding: a site whose name leads to 127.0.0.1."""
    reply = live.http.get(path, headers={"host": host})
    assert reply.status_code == 403
    assert reply.json()["error"]["code"] == "host_not_allowed"
    assert "--allowed-hosts" in reply.json()["error"]["message"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1:1", "app://abc", "://"])
def test_pages_of_other_sites_are_refused(live: Live, origin: str) -> None:
    reply = ask(live, origin=origin)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")


def test_its_own_page_may_use_it(live: Live) -> None:
    assert ask(live, origin=live.url).json()["choices"][0]["text"] == "bc"


def test_a_name_of_its_own(named: Live) -> None:
    for host in ("models.example.org", "Models.Example.Org:443", "models.example.org."):
        assert ask(named, host=host, origin="https://models.example.org").status_code == 200
    assert ask(named, origin="https://models.example.org").status_code == 200
    assert ask(named, host="example.org").status_code == 403
    assert ask(named, **REBOUND).status_code == 403


def test_any_name_will_do_where_all_are_allowed_or_a_key_is_sent() -> None:
    service = toy_service()
    service.hosts = ("*",)
    with running(service) as everybody:
        assert ask(everybody, **REBOUND).status_code == 200
    with running(toy_service(keys=("secret",))) as locked:
        assert ask(locked, **REBOUND, authorization="Bearer secret").status_code == 200
        assert ask(locked, **REBOUND).status_code == 401
    service = toy_service(keys=("secret",))
    service.hosts = ("models.example.org",)
    with running(service) as both:  # asked for by name, it holds for those with a key too
        assert ask(both, **REBOUND, authorization="Bearer secret").status_code == 403
