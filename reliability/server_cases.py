"""Requests that nobody should send, as hypothesis makes them up: bodies, raw bytes, hosts, origins and sizes."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from hypothesis import strategies as st

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=8,
)
FITTING = st.one_of(
    st.booleans(),
    st.integers(0, 3),
    st.floats(0.0, 1.0),
    st.sampled_from(["a", "b c", [], {}, ["a", "b"], [97, 98], [[97], [98]], [{"role": "user", "content": "a"}], "base64", "auto"]),
)
"""What is right for some field or other."""
SAMPLED = "model max_tokens temperature top_p n stop seed stream stream_options logit_bias top_k min_p repetition_penalty ignore_eos"
FIELDS = {
    "/v1/completions": f"prompt best_of logprobs echo suffix stop_token_ids beams length_penalty iterations length_factor {SAMPLED}",
    "/v1/chat/completions": f"messages max_completion_tokens logprobs top_logprobs tools response_format modalities {SAMPLED}",
    "/v1/embeddings": "input encoding_format dimensions model",
    "/v1/predictions": "rows columns model",
    "/v1/images/generations": "prompt n size response_format seed model",
    "/tokenize": "prompt messages add_special_tokens parse_special model",
    "/detokenize": "tokens model",
    "/inspect/attention": "text layer model",
}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "a", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2},
    "/v1/embeddings": {"input": "a"},
    "/v1/predictions": {"rows": ["a"]},
    "/v1/images/generations": {"prompt": ""},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [97]},
    "/inspect/attention": {"text": "a"},
}
GETS = ("/", "/health", "/metrics", "/version", "/v1/models", "/v1/models/toy", "/tokenizer_info", "/openapi.json", "/page/app.js")
NAMES = st.sampled_from(["toy", "subwords", "", "tyo"])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """A route and a body that is nearly right: some fields are anything, and some of the text is damaged."""
    path = draw(st.sampled_from(sorted(FIELDS)))
    changes = draw(st.dictionaries(st.sampled_from(FIELDS[path].split()), FITTING | FITTING | ANYTHING, max_size=3))
    data = json.dumps({"model": draw(NAMES), **GOOD[path], **changes}).encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.binary(max_size=4)) + data[place + draw(st.integers(0, 4)) :]
    return path, data


METHODS = st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "CONNECT", "get", "", "G\x00T", "A" * 300])
TARGETS = st.sampled_from([*GETS, *FIELDS, "*", "//", "/../../etc/passwd", "/%00", "/%ff", "http://evil.example/", "/" + "a" * 60_000])
VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "", "ICY"])
HEADERS = st.sampled_from(
    [
        *("Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: x", "Content-Length: 5, 6"),
        *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked", "Expect: 100-continue"),
        *("Connection: close", "Connection: upgrade", "Upgrade: websocket", "Upgrade: h2c", "Content-Type: application/json"),
        *(
            "Content-Encoding: gzip",
            "Authorization: Bearer x",
            "X-Request-Id: \x7f",
            "Cookie: a=b",
            "Host: localhost",
            " folded",
            ": empty",
        ),
        *("Bad Name: x", "X: " + "y" * 70_000, "Range: bytes=0-", "Content-Type: application/json; charset=utf-7"),
    ]
)
ENDS = st.sampled_from(["\r\n", "\n", "\r", "\r\r\n"])
CONTENTS = st.binary(max_size=40) | st.sampled_from(
    [b"{}", b'{"a"', b"5\r\n{}\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"\x00" * 1000]
)


@st.composite
def raw_requests(draw: st.DrawFn) -> bytes:
    """Bytes that look more or less like HTTP."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(min_size=1, max_size=200))
    end = draw(ENDS) if draw(st.integers(0, 4)) == 0 else "\r\n"
    head = [" ".join([draw(METHODS), draw(TARGETS), draw(VERSIONS)]), "Host: localhost", *draw(st.lists(HEADERS, max_size=4))]
    return end.join([*head, "", ""]).encode("latin-1") + draw(CONTENTS)


LABELS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=20)
HOSTS = st.one_of(
    LABELS,
    LABELS.map(lambda name: f"localhost.{name}"),
    LABELS.map(lambda name: f"127.0.0.1.{name}"),
    LABELS.map(lambda name: f"{name.strip('.') or 'a'}.localhost"),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.sampled_from(["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "0x7f.1", "2130706433", "evil.example"]),
)
PORTS = st.sampled_from(["", ":80", ":8000", ":"])


@st.composite
def hosts(draw: st.DrawFn) -> tuple[str, str, bool]:
    """A Host, an Origin, and whether a request with them is to be answered."""
    name = draw(HOSTS)
    host = name + draw(PORTS)
    origin = draw(st.sampled_from(["", f"http://{host}", f"https://{host}", "null", "http://evil.example", f"http://{host}.evil.example"]))
    return host, origin, own(name.lower()) and (not origin or origin.partition("://")[2].lower() == host.lower())


def own(name: str) -> bool:
    """As the documentation says it, and not as the server computes it."""
    bare = name.removeprefix("[").removesuffix("]").rstrip(".")
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return (":" in bare) == name.startswith("[") and bool(ipaddress.ip_address(bare))
    except ValueError:
        return False


UNITS = st.sampled_from(["a", " ", "word ", "\n", "é", "🙂", "</s>", "<s>", "\\u0000", "0", "a line of words\\n"])
VALUES = st.sampled_from(["[],", "{},", '"ab",', "1,", "12345678,", "null,", "1.5,", '{"a":1},'])


@st.composite
def huge(draw: st.DrawFn, most: int) -> tuple[str, bytes]:
    """A route and a body of up to so many bytes, where a text, a list, a name or the number of something is out of all proportion."""
    path = draw(
        st.sampled_from(["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize", "/v1/predictions"])
    )
    size = draw(st.sampled_from([most // 100, most // 10, most // 2, most - 2000, most + 1000]))
    name = draw(st.sampled_from(["toy", "subwords"]))
    unit = draw(UNITS)
    value = draw(VALUES)
    message = '{"role":"user","content":"a"},'
    field = {"/v1/embeddings": "input", "/detokenize": "tokens", "/v1/predictions": "rows"}.get(path, "prompt")

    def text(characters: int) -> str:
        return '"' + unit * (characters // len(unit.encode())) + '"'

    def values() -> str:
        return "[" + value * (size // len(value)) + "0]"

    forms = {
        "text": lambda: f'"{field}":{text(size)}',
        "texts": lambda: f'"{field}":[{",".join([text(size // 100)] * 90)}]',
        "values": lambda: f'"{field}":{values()}',
        "junk": lambda: f'"{field}":"a","max_tokens":1,"junk":{values()}',
        "nested": lambda: f'"{field}":' + "[" * (size // 2) + "]" * (size // 2),
        "message": lambda: f'"messages":[{{"role":"user","content":{text(size)}}}]',
        "messages": lambda: f'"messages":[{message * (size // len(message))}{message[:-1]}]',
        "name": lambda: f'"{field}":"a","model":{text(size)}',
        "biases": lambda: f'"{field}":"a","logit_bias":{{{",".join(f"{chr(34)}{number}{chr(34)}:1" for number in range(size // 12))}}}',
        "number": lambda: f'"{field}":"a","seed":{"9" * size}',
        "search": lambda: f'"{field}":["a"' + ',"a"' * min(size // 4, 2047) + '],"beams":32',
    }
    form = draw(st.sampled_from(sorted(forms)))
    model = "" if form == "name" else f'"model":"{name}",'
    return path, f"{{{model}{forms[form]()}}}".encode()
