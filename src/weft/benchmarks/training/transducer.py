"""The transducer's loss, forward and backward, whole and in a band, beside torchaudio's and fast_rnnt's where they can be imported.

Run: weft bench transducer [--record results/transducer_gpu.json]
Logits of frames (B, T, V) and of the labels so far (B, U + 1, V), whose sums are the joint; the gradient goes back to both. A contender
has a process of its own, so that its memory is its own; contenders take turns, and a ratio is the median of the turns' ratios. Beside each
stands how far it is from the exact loss and whether two runs are equal to the bit. CTC over the same labels stands beside PyTorch's own.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import synchronise
from weft.kernels.alignment import ctc_log_likelihood, transducer_log_likelihood, transducer_logit_log_likelihood, transducer_sums
from weft.nn.alignment.gather import take_rows
from weft.nn.alignment.pruned import additive_joint, band_joint, band_starts, band_symbols
from weft.training import execution

WHOLE, PRUNED, AUDIO, FAST, FAST_PRUNED = "weft", "weft pruned", "torchaudio", "fast_rnnt", "fast_rnnt pruned"
CTC, PYTORCH_CTC = "weft CTC", "PyTorch CTC"
BAND = 5
Inputs = dict[str, Tensor]


def inputs(rows: int, frames: int, labels: int, vocabulary: int, device: torch.device) -> Inputs:
    """Sounds from half as long on, the longest first, and labels in proportion."""
    generator = torch.Generator().manual_seed(0)
    share = torch.linspace(1.0, 0.5, rows)
    sizes = {"frame_lengths": (share * frames).long().clamp(min=1), "label_lengths": (share * labels).long().clamp(min=1)}
    made = {
        "frames": torch.randn(rows, frames, vocabulary, generator=generator),
        "symbols": torch.randn(rows, labels + 1, vocabulary, generator=generator),
        "labels": torch.randint(1, vocabulary, (rows, labels), generator=generator),
        **sizes,
    }
    moved = {name: tensor.to(device) for name, tensor in made.items()}
    for name in ("frames", "symbols"):
        moved[name].requires_grad_()
    return moved


def joint(x: Inputs) -> Tensor:
    return x["frames"][:, :, None] + x["symbols"][:, None]


def whole(x: Inputs) -> Tensor:
    return -transducer_logit_log_likelihood(joint(x), x["frame_lengths"], x["labels"], x["label_lengths"])


def pruned(x: Inputs) -> Tensor:
    lengths = x["frame_lengths"], x["label_lengths"]
    simple = additive_joint(x["frames"], x["symbols"], x["labels"], 0)
    with torch.no_grad():
        _, by_blank, by_label = transducer_sums(simple[0].detach(), simple[1].detach(), *lengths, True)
        starts = band_starts(by_blank, by_label, *lengths, BAND)
    symbols = take_rows(x["symbols"], band_symbols(starts, BAND, x["symbols"].size(1)))
    banded = transducer_log_likelihood(*band_joint(x["frames"][:, :, None] + symbols, starts, x["labels"], 0), *lengths)
    return -banded - transducer_log_likelihood(*simple, *lengths)


def torchaudio(x: Inputs) -> Tensor:
    from torchaudio.functional import rnnt_loss  # type: ignore[import-not-found]

    whole_numbers = (x[name].int() for name in ("labels", "frame_lengths", "label_lengths"))
    found: Tensor = rnnt_loss(joint(x), *whole_numbers, blank=0, reduction="none", fused_log_softmax=True)
    return found


def boundary(x: Inputs) -> Tensor:
    """What fast_rnnt calls the beginning and the end of each row (B, 4)."""
    nothing = torch.zeros_like(x["frame_lengths"])
    return torch.stack([nothing, nothing, x["label_lengths"], x["frame_lengths"]], 1)


def fast(x: Inputs) -> Tensor:
    import fast_rnnt  # type: ignore[import-not-found]

    found: Tensor = fast_rnnt.rnnt_loss(joint(x), x["labels"], termination_symbol=0, boundary=boundary(x), reduction="none")
    return found


def fast_pruned(x: Inputs) -> Tensor:
    import fast_rnnt

    common = {"symbols": x["labels"], "termination_symbol": 0, "boundary": boundary(x)}
    simple, (by_label, by_blank) = fast_rnnt.rnnt_loss_simple(am=x["frames"], lm=x["symbols"], reduction="none", return_grad=True, **common)
    ranges = fast_rnnt.get_rnnt_prune_ranges(px_grad=by_label, py_grad=by_blank, boundary=boundary(x), s_range=BAND)
    frames, symbols = fast_rnnt.do_rnnt_pruning(am=x["frames"], lm=x["symbols"], ranges=ranges)
    found: Tensor = fast_rnnt.rnnt_loss_pruned(logits=frames + symbols, ranges=ranges, reduction="none", **common) + simple
    return found


def ctc(x: Inputs) -> Tensor:
    return -ctc_log_likelihood(x["frames"].log_softmax(-1), x["frame_lengths"], x["labels"], x["label_lengths"])


def pytorch_ctc(x: Inputs) -> Tensor:
    log_probs = x["frames"].log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_probs, x["labels"], x["frame_lengths"], x["label_lengths"], reduction="none")


LOSSES: dict[str, Callable[[Inputs], Tensor]] = {
    WHOLE: whole,
    PRUNED: pruned,
    AUDIO: torchaudio,
    FAST: fast,
    FAST_PRUNED: fast_pruned,
    CTC: ctc,
    PYTORCH_CTC: pytorch_ctc,
}


def there(kind: str) -> bool:
    """Whether what a contender is made of can be imported."""
    return importlib.util.find_spec({AUDIO: "torchaudio", FAST: "fast_rnnt", FAST_PRUNED: "fast_rnnt"}.get(kind, "torch")) is not None


def gradients(loss: Tensor, x: Inputs) -> list[Tensor]:
    return [each for each in torch.autograd.grad(loss.sum(), (x["frames"], x["symbols"]), allow_unused=True) if each is not None]


def checked(kind: str, x: Inputs) -> dict[str, Any]:
    """How far a loss is from the same in fp64, and whether two runs are equal to the bit."""
    loss = LOSSES[kind](x)
    first, second = gradients(loss, x), gradients(LOSSES[kind](x), x)
    found: dict[str, Any] = {"same_bits": all(torch.equal(one, other) for one, other in zip(first, second, strict=True))}
    exact = {AUDIO: whole, FAST: whole, WHOLE: whole, CTC: ctc, PYTORCH_CTC: ctc}.get(kind)
    if exact:
        row = {name: tensor[-1:].detach() for name, tensor in x.items()}  # the shortest, as fp64 takes much memory
        frames, labels = int(row["frame_lengths"]), int(row["label_lengths"])
        row |= {"frames": row["frames"][:, :frames].double(), "symbols": row["symbols"][:, : labels + 1].double()}
        row["labels"] = row["labels"][:, :labels]
        true = exact(row)
        found["largest_difference"] = float((loss[-1].detach().double() - true[0].detach()).abs() / true[0].detach().abs())
    return found


def step(kind: str, x: Inputs) -> None:
    gradients(LOSSES[kind](x), x)


def serve(kind: str, sizes: tuple[int, int, int, int], device: str, wire: Connection) -> None:
    """A contender: each message asks for so many steps and gets their milliseconds; the last one for what else is known."""
    place = torch.device(device)
    x = inputs(*sizes, place)
    while number := wire.recv():
        if number < 0:
            synchronise()
            if place.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            step(kind, x)
            synchronise()
            peak = torch.cuda.max_memory_allocated() / 2**30 if place.type == "cuda" else None
            wire.send({**({"gib": peak} if peak else {}), **checked(kind, x)})
            continue
        synchronise()
        begin = time.perf_counter()
        for _ in range(number):
            step(kind, x)
        synchronise()
        wire.send((time.perf_counter() - begin) / number * 1e3)


def ratios(rows: dict[str, dict[str, Any]]) -> None:
    """How many times as fast and with which share of the memory each of weft's is, beside each peer of its kind."""
    for mine, peers in ((WHOLE, (AUDIO, FAST)), (PRUNED, (AUDIO, FAST_PRUNED)), (CTC, (PYTORCH_CTC,))):
        for peer in peers:
            if mine in rows and peer in rows:
                name = peer.lower().replace(" ", "_")
                turns = zip(rows[peer]["turns"], rows[mine]["turns"], strict=True)
                rows[mine][f"times_{name}"] = statistics.median(other / own for other, own in turns)
                if "gib" in rows[mine]:
                    rows[mine][f"memory_ratio_{name}"] = rows[mine]["gib"] / rows[peer]["gib"]


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "transducer")
    parser.add_names("--contenders", LOSSES, nargs="+", default=[*LOSSES])
    for name, size in (("rows", 30), ("frames", 400), ("labels", 100), ("vocabulary", 500), ("steps", 5), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=at_least(1), default=size)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    device, spawn = execution.select_device(options.device), multiprocessing.get_context("spawn")
    sizes = options.rows, options.frames, options.labels, options.vocabulary
    kinds = [kind for kind in options.contenders if there(kind)]
    for kind in sorted(set(options.contenders) - set(kinds)):
        print(f"{kind}: not installed, so not measured", flush=True)
    wires, rows = {}, {}
    for kind in kinds:
        wires[kind], other = spawn.Pipe()
        spawn.Process(target=serve, args=(kind, sizes, str(device), other), daemon=True).start()
        other.close()
    alone = [kind for kind in kinds if asked(wires[kind], 1) is not None]  # warms up
    for kind in alone:
        rows[kind] = {"loss": kind, "turns": [], **asked(wires[kind], -1)}
    for _ in range(options.rounds):
        for kind in alone:
            rows[kind]["turns"].append(asked(wires[kind], options.steps))
    for kind in alone:
        wires[kind].send(0)
        rows[kind]["ms"] = statistics.median(rows[kind]["turns"])
    ratios(rows)
    for row in rows.values():
        print("  ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()))
    if options.record:
        shape = dict(zip(("rows", "frames", "labels", "vocabulary"), sizes, strict=True))
        measured = measurements(list(rows.values()), ("loss",))
        write_record(options.record, measured, **parser.run(options), details={**shape, "band": BAND, "device": device.type})


def asked(wire: Any, number: int) -> Any:
    """What a contender answers; None where it failed."""
    try:
        wire.send(number)
        return wire.recv()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return None


if __name__ == "__main__":
    main()
