"""Word vectors beside gensim's: speed, memory, the same bytes on any number of threads, files, and analogies.

python -m weft bench words --gensim VENV/bin/python --parts speed threads memory files --record results/words_cpu.json
python -m weft bench words --gensim VENV/bin/python --parts analogies --questions questions-words.txt --record results/words_analogies.json
The text is pooled from data sets found through WEFT_DATA. Whatever has been measured is kept in --out, and the same command goes on from
there; --parts cuts it. Without --gensim weft is measured alone. On a GPU (--device cuda) speed and analogies only.
"""

from __future__ import annotations

import contextlib
import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.words import analogies, files, speed
from weft.benchmarks.words.peer import Peer
from weft.benchmarks.words.pool import pooled

Row = dict[str, Any]
PARTS: dict[str, Callable[[Namespace, Path, Peer | None], Iterator[Row]]] = {
    "speed": speed.speed,
    "threads": speed.same_bytes,
    "memory": speed.memory,
    "files": files.compared,
    "analogies": analogies.measured,
}
OF = ("part", "architecture", "contender", "threads", "device", "length", "file", "epochs", "width")


def kept(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "words")
    parser.add_argument("--out", type=Path, default=Path("runs/words"), help="folder of the text, the runs and what was measured")
    parser.add_argument("--gensim", default="", help="Python of an environment that has gensim")
    parser.add_argument("--questions", type=Path, help="questions-words.txt of word2vec")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_names("--parts", PARTS, nargs="+", default=list(PARTS))
    parser.add_names("--architectures", ("skip_gram", "cbow"), nargs="+", default=["skip_gram", "cbow"])
    parser.add_argument("--rounds", type=at_least(1), default=3, help="of each contender, in turns")
    parser.add_argument("--share", type=at_least(0.0), default=0.2, help="of the text that a round of --parts speed takes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of weft's runs for --parts analogies")
    parser.add_argument(
        "--length", type=at_least(2), default=0, help="words of a passage, which are then one update; 0: as the recipe is, or on a GPU 4096"
    )
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    if options.device != "cpu":
        options.parts = [part for part in options.parts if part in ("speed", "analogies")]
    if options.record and len({part == "analogies" for part in options.parts}) > 1:
        parser.error("--record: analogies have seeds and the other parts have none; record them apart (--parts analogies)")
    with Peer(options.gensim) if options.gensim else contextlib.nullcontext() as peer:
        rows = measure(options, peer)
        if options.record:
            versions = peer.ask("version") if peer else {}
            found = measurements(rows, OF, split="test" if "analogies" in options.parts else None)
            write_record(options.record, found, **parser.run(options), versions=versions, recipe="word2vec/text")


def measure(options: Namespace, peer: Peer | None) -> list[Row]:
    """The rows of all parts, those of earlier commands too; of what was measured twice the last."""
    corpus, notes = pooled(options.out), options.out / "rows.jsonl"
    for part in options.parts:
        for row in PARTS[part](options, corpus, peer):
            print(json.dumps(row), flush=True)
            with notes.open("a") as out:
                print(json.dumps(row), file=out)
    rows = [row for row in kept(notes) if row["part"] in options.parts]
    return list({json.dumps([row.get(name) for name in (*OF, "seed")]): row for row in rows}.values())


if __name__ == "__main__":
    main()
