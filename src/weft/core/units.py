"""Numbers, durations and metric names formatted for people."""

from __future__ import annotations

TITLES = {
    "lr": "learning rate",
    "grad_norm": "gradient norm",
    "per_second": "examples per second",
    "kl": "KL divergence",
    "mfu": "MFU",
}


def title(name: str) -> str:
    """`discriminator_lr` as "discriminator learning rate"."""
    for suffix, words in TITLES.items():
        if name == suffix or name.endswith("_" + suffix):
            return (name.removesuffix(suffix).replace("_", " ") + words).strip()
    return name.replace("_", " ")


def number(value: float) -> str:
    """Four decimals for medium values, thousands separated by commas, else scientific notation."""
    size = abs(value)
    if float(value).is_integer() and size < 1e15:
        return f"{value:,.0f}"
    if 1e-3 <= size < 1e4:
        return f"{value:.4f}"
    return f"{value:,.0f}" if 1e4 <= size < 1e15 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """0:42, 12:05, 3:07:09, or 2 d 4:00:00."""
    days, rest = divmod(int(seconds + 0.5), 86400)
    hours, rest = divmod(rest, 3600)
    clock = f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours or days else f"{rest // 60}:{rest % 60:02d}"
    return f"{days} d {clock}" if days else clock
