"""For how many steps a recurrent network learns to remember: a tanh RNN for few, gated ones for many (Hochreiter & Schmidhuber, 1997).

Each is trained to tell the first of many symbols, which alone is marked, by the same number of updates. A gate that forgets a quarter at
every step, as a bias of 1 makes it, hides the beginning from the gradient; one that begins open for the longest lag (chrono initialisation)
does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import TensorDataset
from weft.nn import init
from weft.nn.recurrent import CELLS, WITH_CELL
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.optimization.exploding_rnn import SYMBOLS, Recurrent, train
from weft.training.optimizer.settings import Adam

GATED = ("lstm", "peephole", "gru", "cho_gru")
"""Cells with a gate of its own that keeps."""
KNOWN = 0.9
"""Share of right answers from which a network counts as remembering."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    cells: tuple[str, ...] = ("rnn", "lstm", "gru")
    """Recurrent cells to compare."""
    lags: tuple[int, ...] = (5, 10, 20, 40, 80, 160)
    """Steps after which the first symbol is asked for."""
    width: int = 32
    """Of the state."""
    steps: int = 300
    """Of training, 32 sequences each."""
    lr: float = 1e-2
    """Rate of Adam."""
    seeds: int = 3
    """Networks of each kind."""


def sequences(length: int, number: int, seed: int) -> TensorDataset:
    """Symbols, and a channel that marks the first; the label is the first symbol."""
    keys = random.keys(seed, torch.arange(number))
    symbols = random.integers(random.fold(keys, "symbols"), SYMBOLS, length)
    x = torch.zeros(number, length, SYMBOLS + 1).scatter_(2, symbols[..., None], 1.0)
    x[:, 0, SYMBOLS] = 1.0
    return TensorDataset({"x": x, "label": symbols[:, 0]})


def network(settings: Settings, cell: str, seed: int, longest: int = 0) -> Recurrent:
    """longest: the lag for which gates begin open; 0 leaves them as the layer makes them."""
    torch.manual_seed(seed)
    made = Recurrent(cell, settings.width)
    if longest:
        write, keep = torch.split(made.rnn.bias_ih.data, settings.width)[:2]  # of an LSTM i and f, of a GRU r and z
        init.chrono(keep, longest)
        if cell in WITH_CELL:
            write.copy_(-keep)
    return made


def accuracy(settings: Settings, cell: str, lag: int, seed: int, longest: int = 0) -> float:
    """Share of right answers of one network on sequences that it was not trained on."""
    optim = Adam(lr=settings.lr, clip_norm=1.0)
    return train(network(settings, cell, seed, longest), optim, settings.steps, partial(sequences, lag), seed).accuracy


def horizon(shares: dict[int, float]) -> int:
    """The longest lag up to which a cell remembers; 0 where it never does."""
    longest = 0
    for lag, share in sorted(shares.items()):
        if share < KNOWN:
            break
        longest = lag
    return longest


def study(settings: Settings) -> Finding:
    """Train every cell for every lag."""
    if unknown := [cell for cell in settings.cells if cell not in CELLS]:
        raise ConfigError(f"no recurrent cell is called {unknown[0]!r}; choose from: {', '.join(CELLS)}")
    if not settings.cells or not settings.lags or min(*settings.lags, settings.width, settings.steps, settings.seeds) < 1:
        raise ConfigError("expected cells, and lags, a width, steps and seeds of at least 1")
    found: dict[str, dict[int, float]] = {}
    gated = [cell for cell in settings.cells if cell in GATED]
    for cell, longest in [*((cell, 0) for cell in settings.cells), *((cell, max(settings.lags)) for cell in gated)]:
        name = f"{cell}, gates open" if longest else cell
        found[name] = {
            lag: sum(accuracy(settings, cell, lag, seed + 1, longest) for seed in range(settings.seeds)) / settings.seeds
            for lag in settings.lags
        }
    curves = [Curve(cell, [(float(lag), share) for lag, share in found[cell].items()], f"c{i % 8}") for i, cell in enumerate(found)]
    figure = chart("share of right answers, by the steps since the symbol", curves, tall=True, across="steps")
    rows = tuple((cell, str(lag), f"{share:.3f}") for cell, shares in found.items() for lag, share in shares.items())
    reached = "; ".join(f"{cell} {horizon(shares) or 'none'}" for cell, shares in found.items())
    claim = f"After {settings.steps} updates {100 * KNOWN:.0f} % or more are right up to these lags: {reached}. "
    claim += f"By chance it is {100 / SYMBOLS:.0f} %."
    return Finding("Memory of recurrent networks", claim, ("cell", "lag", "accuracy"), rows, figure)
