"""What is done to a file by somebody who knows its format: JSON, tensors, archives, tables, or any bytes; and to its place on disk."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Files = dict[str, bytes]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 255, 10_000_000, 2**31, 2**53, 2**63, 2**64 - 1, 10**30, -(2**63), 0.5, -0.0, 1e308, 1e-320),
    *(float("inf"), float("-inf"), float("nan"), "", "x", "1", "é²", "\ud800", "\0", "a" * 5000, "/dev/zero", "../../x", "a\nb", "{{x}}"),
    *([], {}, [[]], [1], [0, -5], [1 << 40, 1 << 40], ["x"], {"x": 1}, {"type": "gpt"}, {"type": "no such"}, [None], list(range(300))),
]
"""Of every kind of JSON, sizes that no model has, and words that have a meaning to something."""
NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
CELLS = ["", "\0", '"', "'", "\t", ",", "\r", "\ufeff", "\ud83d", "NaN", "-1", "1e999", "x" * 100_000, "é²", "=1+1", "\u2028", "[]", "{}"]

LARGEST = 1 << 20
"""Characters of a table beyond which it grows no more: what memory may be taken is measured by the honest one."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value, the whole one first; of long lists only the first and the last few."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    items = list(inner)
    for key, part in items if len(items) <= 40 else items[:6] + items[-6:]:
        found += places(part, (*path, key))
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def change_value(value: Any, chance: random.Random) -> Any:
    """One place of a JSON value changed: another value, another number, gone, doubled, renamed, deeper, or swapped with another."""
    known = places(value)
    path = chance.choice(known[1:] or known)
    if not path:
        return chance.choice(VALUES)
    holder, key = at(value, path[:-1]), path[-1]
    act = chance.choice(("value", "value", "value", "number", "delete", "name", "wrap", "swap", "long", "text"))
    old = holder[key]
    if act == "number" and type(old) in (int, float):
        holder[key] = chance.choice([-old, old + 1, old - 1, old * 1000, old / 2, str(old), [old], -1])
    elif act == "delete":
        del holder[key]
    elif act == "name" and isinstance(holder, dict):
        holder[chance.choice(["", "x", "type", f"{key}²", "__class__"])] = holder.pop(key)
    elif act == "wrap":
        for _ in range(chance.choice([1, 3, 300])):
            old = chance.choice(([old], {"x": old}))
        holder[key] = old
    elif act == "swap":
        holder[key] = at(value, chance.choice(known[1:] or known))
    elif act == "long" and isinstance(old, list) and old:
        holder[key] = old * chance.choice([2, 1000])
    elif act == "text" and isinstance(old, str):
        at_place = chance.randrange(len(old) + 1)
        holder[key] = old[:at_place] + chance.choice(["\0", "é", "/", "..", " ", "\n", "x" * 1000, "²"]) + old[at_place:]
    else:
        holder[key] = chance.choice(VALUES)
    return value


def json_text(value: Any) -> bytes:
    try:
        return json.dumps(value, indent=2).encode(errors="surrogatepass") + b"\n"
    except (RecursionError, ValueError):  # an element that became a part of itself
        return b"[" * 100_000


def json_file(data: bytes, chance: random.Random) -> bytes:
    """A JSON file changed in one to three places, or in a way that only text can be."""
    way = chance.random()
    if way < 0.04:
        return chance.choice([b"[" * 200_000, b'{"a":' * 100_000, b"[1]", b"null", b"", b"1e999", b"\xff\xfe", b"9" * 6000, b"{}", b"NaN"])
    if way < 0.08:
        return some_bytes(data, chance)
    try:
        value = json.loads(data)
    except ValueError:
        return some_bytes(data, chance)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        value = change_value(value, chance)
    return json_text(value)


def json_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines or chance.random() < 0.1:
        return some_bytes(data, chance)
    for _ in range(chance.choice([1, 1, 3])):
        where = chance.randrange(len(lines))
        lines[where] = b"" if chance.random() < 0.1 else json_file(lines[where], chance).replace(b"\n", b" ") + b"\n"
    return b"".join(lines)


def some_bytes(data: bytes, chance: random.Random) -> bytes:
    """Any file: bits turned, numbers put in, cut off, a part doubled, lost or moved."""
    found = bytearray(data or b"\0")
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        where = chance.randrange(min(len(found), chance.choice([16, 64, 512, len(found)])))
        act = chance.choice(("bit", "number", "number", "cut", "double", "lose", "noise", "zero"))
        size = min(chance.choice([1, 2, 4, 8, 64, 1000]), len(found) - where)
        if act == "bit":
            found[where] ^= 1 << chance.randrange(8)
        elif act == "number":
            width, order = chance.choice([1, 2, 4, 8]), chance.choice(("little", "big"))
            found[where : where + width] = (chance.choice(NUMBERS) % (1 << (8 * width))).to_bytes(width, order)
        elif act == "cut" and chance.random() < 0.3:
            del found[where:]
        elif act == "double":
            found[where:where] = found[where : where + size]
        elif act == "lose":
            del found[where : where + size]
        else:
            found[where : where + size] = bytes(size) if act == "zero" else chance.randbytes(size)
        found = found or bytearray(1)
    return bytes(found)


def table(data: bytes, chance: random.Random) -> bytes:
    """A file of lines and cells."""
    text = data.decode("utf-8", errors="surrogateescape")
    if chance.random() < 0.2:
        return some_bytes(data, chance)
    lines = text.split("\n")
    for _ in range(chance.choice([1, 2, 5])):
        if sum(map(len, lines)) > LARGEST:
            break
        where = chance.randrange(len(lines))
        separator = "\t" if "\t" in text else ","
        cells = lines[where].split(separator)
        act = chance.choice(("cell", "cell", "more", "fewer", "gone", "double", "columns", "quote"))
        if act == "cell":
            cells[chance.randrange(len(cells))] = chance.choice(CELLS)
        elif act == "more":
            cells += [chance.choice(CELLS)] * chance.choice([1, 50])
        elif act == "fewer":
            cells.pop()
        elif act == "columns":
            cells *= chance.choice([3, 100])
        elif act == "quote":
            cells[0] = '"' + cells[0]
        lines[where] = separator.join(cells)
        if act == "gone":
            lines[where : where + 1] = []
        if act == "double":
            lines[where:where] = [lines[where]] * chance.choice([1, 100])
        lines = lines or [""]
    encoding = chance.choice(["utf-8"] * 8 + ["utf-16", "utf-32", "latin-1", "gb18030"])
    return "\n".join(lines).encode(encoding, errors="surrogateescape" if encoding == "utf-8" else "replace")


def tensors(data: bytes, chance: random.Random) -> bytes:
    """A safetensors file: its header's JSON, its length, or its numbers."""
    way = chance.random()
    start = 8 + int.from_bytes(data[:8], "little")
    if way < 0.15:
        return some_bytes(data, chance)
    if way < 0.25:
        return chance.choice(NUMBERS).to_bytes(8, "little") + data[8:]
    if way < 0.35:
        numbers = bytearray(data)
        for where in range(start, len(data), 4):
            numbers[where : where + 4] = struct.pack("<f", chance.choice([float("nan"), float("inf"), 1e30, 0.0]))
        return bytes(numbers)
    header = json.loads(data[8:start])
    if way < 0.45:
        name = chance.choice([name for name in header if name != "__metadata__"] or ["__metadata__"])
        header[name] = header[name] | {"shape": chance.choice([[0, -5], [1 << 40, 1 << 40], [2**63], [], ["x"], [1.5], [-1], [0, 1 << 62]])}
        text = json_text(header)
    else:
        text = json_file(data[8:start], chance)
    return len(text).to_bytes(8, "little") + text + data[start:]


def archive(data: bytes, chance: random.Random) -> bytes:
    """A zip file: odd names, broken, encrypted or unknown members, very many, or none."""
    way = chance.random()
    if way < 0.3:
        return some_bytes(data, chance)
    if way < 0.5:
        found = bytearray(data)
        starts = [i for sign in (b"PK\3\4", b"PK\1\2") for i in range(len(found) - 64) if found[i : i + 4] == sign]
        where = chance.choice(starts or [0]) + chance.randrange(4, 46)
        found[where : where + 2] = chance.choice([1, 0, 99, 8, 14, 0xFFFF, 0x2000]).to_bytes(2, "little")
        return bytes(found)
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.infolist():
            content, name = old.read(member), member.filename
            if chance.random() < 0.2:
                content = guess(Path(name).name)(content, chance)
            if chance.random() < 0.1:
                name = chance.choice(
                    [f"../{name}", f"/{name}", "a/" * 3000 + "x", "x" * 300, name + "/", "C:\\x", "", "con\0x", "é²/" + name]
                )
            new.writestr(zipfile.ZipInfo(name), content)
    return target.getvalue()


def compressed(data: bytes, chance: random.Random) -> bytes:
    """A gzip file: its bytes, or what is packed in it."""
    if chance.random() < 0.4:
        return some_bytes(data, chance)
    return gzip.compress(table(gzip.decompress(data), chance), mtime=0)


def signed(files: Files, chance: random.Random) -> Files:
    """Manifests of checkpoints made to hold again, so that what was changed is looked at."""
    found = dict(files)
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        if name != "manifest.json":
            continue
        try:
            manifest = json.loads(data)
            if isinstance(manifest.get("files"), dict) and chance.random() < 0.95:
                for other in manifest["files"]:
                    if (content := found.get(f"{folder}/{other}" if folder else other)) is not None:
                        manifest["files"][other] = hashlib.sha256(content).hexdigest()
            manifest.pop("sha256", None)
            manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
            found[path] = (json.dumps(manifest, indent=2) + "\n").encode()
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
    return found


def guess(name: str) -> Callable[[bytes, random.Random], bytes]:
    """The way to change a file of this name; what was changed beyond its format already is taken as any bytes."""
    ways = {
        ".json": json_file,
        ".gguf": gguf,
        ".bin": header,
        ".ftz": header,
        ".jsonl": json_lines,
        ".safetensors": tensors,
        ".whl": archive,
        ".zip": archive,
        ".npz": archive,
        ".pt": archive,
        ".npy": header,
        ".state": json_file,
        ".gz": compressed,
    }
    text = dict.fromkeys((".csv", ".tsv", ".txt", ".conll", ".vec", ".yaml", ".toml", ".part"), table)
    way = {**ways, **text}.get(Path(name).suffix, some_bytes)

    def change(data: bytes, chance: random.Random) -> bytes:
        try:
            return way(data, chance)
        except Exception:  # as many kinds as there are formats
            return some_bytes(data, chance)

    return change


def displaced(path: Path, chance: random.Random) -> str:
    """Something else where a file is expected."""
    data = path.read_bytes()
    path.unlink()
    kind = chance.choice(("gone", "fifo", "folder", "zero", "loop", "nowhere", "empty", "unreadable", "null"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("zero", "null"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "nowhere":
        path.symlink_to("nowhere")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "unreadable":
        path.write_bytes(data)
        path.chmod(0)
    return f"{path.name} became {kind}"


KEY = re.compile(rb"(general|llama|tokenizer|blk|token_embd|output|rope)[a-z_.0-9]*")


def header(data: bytes, chance: random.Random) -> bytes:
    """Another number among the first, as sizes and settings of fastText are; or any bytes."""
    if chance.random() < 0.5:
        return some_bytes(data, chance)
    place = 4 * chance.randrange(1, max(2, min(40, len(data) // 4)))
    value = chance.choice((0, 1, 2, 255, 1 << 16, 1 << 24, (1 << 31) - 1, (1 << 32) - 1, chance.getrandbits(32)))
    return data[:place] + value.to_bytes(4, "little") + data[place + 4 :]


def gguf(data: bytes, chance: random.Random) -> bytes:
    """A GGUF file: kinds, lengths, shapes and offsets that stand behind a key or the name of a tensor, or its counts."""
    if chance.random() < 0.15:
        return some_bytes(data, chance)
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        if chance.random() < 0.2:
            where, width = chance.choice([(4, 4), (8, 8), (16, 8)])
        else:
            where = chance.choice([match.end() for match in KEY.finditer(data)]) + chance.choice([-1, 0, 0, 4, 4, 8, 12, 20, 24, 28, 32])
            width = chance.choice([4, 8])
        few = chance.choice([NUMBERS, range(14), [32, 64, 4096]])
        found[where : where + width] = (chance.choice(few) % (1 << (8 * width))).to_bytes(width, "little")
    return bytes(found)
