"""`weft predict` on a large file beside the model alone, and the time to the first token of `weft sample`.

Run: python -m weft bench predict [--record results/predict.json]
The model alone gets batches that are tokenised, ordered by length over all rows, and padded to their longest, and its logits are
thrown away. `weft predict` reads a CSV file, tokenises, orders windows of it, and writes CSV with a probability for each class, synced to
the disk; all of that is timed, and how its memory grows from a tenth of the rows to the end. By turns, as other work on the machine
counts in wall time; the ratio by work of the processors is without it.
"""

from __future__ import annotations

import csv
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import Row, measurements, write_record
from weft.data.base import Problems
from weft.inference.predict.base import Predictor, trimmed
from weft.inference.predict.find import find
from weft.inference.predict.run import batches
from weft.inference.predict.to_file import Progress, open_source, predict_file
from weft.recipes.base import recipe
from weft.runs.assemble import assemble
from weft.runs.load import load

WORDS = (
    *("the", "a", "some", "no", "cat", "dog", "friend", "moon", "tree", "rain", "song", "sees", "likes", "hears", "hates", "finds"),
    *("near", "under", "over", "slowly", "often", "never", "today"),
)


def write_rows(path: Path, number: int) -> None:
    """Texts of 3 to 60 words, most of them short, with a label."""
    chance = random.Random(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for row in range(number):
            size = min(60, 3 + int(chance.expovariate(1 / 12)))
            rows.writerow((" ".join(chance.choices(WORDS, k=size)), f"class {row % 3}"))


def classifier(folder: Path, layers: int, width: int, device: str) -> Predictor:
    """A BERT that was trained for a step: what it says does not matter."""
    write_rows(folder / "train.csv", 500)
    size = {"model.layers": layers, "model.width": width, "model.heads": max(1, width // 64), "train.steps": 1, "train.eval_every": 0}
    made = recipe("bert/classify", {**size, "data.path": str(folder / "train.csv"), "train.device": device, "data.vocabulary": 300})
    assemble(made, folder / "run").trainer.fit()
    return find(load(folder / "run", device))


def seconds() -> tuple[float, float]:
    """That have passed, and that processors have worked for this process."""
    used = os.times()
    return time.perf_counter(), used.user + used.system


def synchronised(predictor: Predictor) -> tuple[float, float]:
    if predictor.device.type == "cuda":
        torch.cuda.synchronize()
    return seconds()


@torch.inference_mode()
def alone(predictor: Predictor, path: Path) -> tuple[float, float]:
    """Seconds, and work, of the model on batches that are ready."""
    source = open_source(path, predictor)
    columns = predictor.choose(source.names, ())
    items = predictor.items([predictor.example(row, columns) for row in source.rows], Problems())  # type: ignore[arg-type]
    source.close()
    data = items.data.to(predictor.device)
    ready = []
    for chosen in batches(items.sizes, predictor):
        index = torch.tensor(chosen, device=predictor.device)
        ready.append(trimmed(data.batch(index, torch.zeros_like(index))))
    begin = synchronised(predictor)
    for batch in ready:
        predictor.model.classify(batch["ids"], batch["segments"], batch["lengths"])
    end = synchronised(predictor)
    return end[0] - begin[0], end[1] - begin[1]


def memory() -> int:
    """Bytes that this process holds now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def to_file(predictor: Predictor, path: Path, out: Path, number: int) -> tuple[float, float, int]:
    """Seconds, work, and by how many bytes the memory grew after a tenth of the rows."""
    grown: list[int] = []

    def watch(done: Progress) -> None:
        if done.rows > number / 10:
            grown.append(memory())

    begin = synchronised(predictor)
    source = open_source(path, predictor)
    predict_file(predictor, source, predictor.choose(source.names, ()), out, {}, watch)
    source.close()
    end = synchronised(predictor)
    return end[0] - begin[0], end[1] - begin[1], max(grown) - grown[0]


def first_token(run: Path) -> tuple[float, float]:
    """Seconds until `weft sample` prints, and the processors' work until it ends."""
    before = os.times()
    begin = time.perf_counter()
    words = [sys.executable, "-m", "weft", "sample", str(run), "the", "--stream", "--max-new-tokens", "2", "--device", "cpu"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(4)
        took = time.perf_counter() - begin
    after = os.times()
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def text_model(folder: Path) -> Path:
    text = " ".join(random.Random(0).choices(WORDS, k=9000))
    (folder / "text.txt").write_text(text)
    made = recipe("gpt/text", {"data.path": str(folder / "text.txt"), "train.steps": 1, "train.eval_every": 0, "train.device": "cpu"})
    assemble(made, folder / "text").trainer.fit()
    return folder / "text"


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "predict")
    parser.add_argument("--rows", type=at_least(100), default=100_000, help="rows of the file")
    parser.add_argument("--layers", type=at_least(1), default=4, help="blocks of the classifier, by default those of BERT-mini")
    parser.add_argument("--width", type=at_least(64), default=256, help="size of its states")
    parser.add_argument("--rounds", type=at_least(1), default=3, help="turns of each contender; the median counts")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    number = int(options.rows)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        predictor = classifier(folder, int(options.layers), int(options.width), options.device)
        write_rows(folder / "rows.csv", number)
        raw, whole = [], []
        for _ in range(int(options.rounds)):
            raw.append(alone(predictor, folder / "rows.csv"))
            whole.append(to_file(predictor, folder / "rows.csv", folder / "out.csv", number))
            print(f"model alone {number / raw[-1][0]:8,.0f} rows/s   weft predict {number / whole[-1][0]:8,.0f} rows/s", flush=True)
        starts = [first_token(text_model(folder)) for _ in range(int(options.rounds))]
    rows: list[Row] = [contender("model alone", number, raw), contender("weft predict", number, whole)]
    rows[1] |= {
        "wall_ratio": rows[1]["rows_per_second"] / rows[0]["rows_per_second"],
        "work_ratio": rows[1]["rows_per_core_second"] / rows[0]["rows_per_core_second"],
        "grown_bytes": max(grown for *_, grown in whole),
    }
    rows.append({"contender": "weft sample", "first_token_seconds": middle(starts, 0), "work_seconds": middle(starts, 1)})
    for row in rows:
        print("  ".join(f"{name} {value:,.4g}" if isinstance(value, float | int) else str(value) for name, value in row.items()))
    if options.record:
        details: dict[str, Any] = {"rows": number, "layers": options.layers, "width": options.width, "load": os.getloadavg()[0]}
        write_record(options.record, measurements(rows, ("contender",)), **parser.run(options), details=details)


def contender(name: str, number: int, took: list[Any]) -> Row:
    return {"contender": name, "rows_per_second": number / middle(took, 0), "rows_per_core_second": number / middle(took, 1)}


def middle(took: list[Any], place: int) -> float:
    return float(statistics.median(one[place] for one in took))


if __name__ == "__main__":
    main()
