"""A plan, and the growth of the GPTs, as rows that people read."""

from __future__ import annotations

from weft.core.units import duration
from weft.planning import scaling
from weft.planning.devices import GiB
from weft.planning.plan import TrainingPlan

Rows = list[tuple[str, ...]]
FITTED = 50e6
"""Parameters of the smallest models to which the law of the expected loss was fitted, about."""


def quantity(value: float) -> str:
    """1.56 B, 350 M, 12.3 k, or 1.08e+12 where no such word is common."""
    for size, word in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if 1.0 <= value / size < 1000.0:
            return f"{value / size:.3g} {word}"
    return f"{value:.3g}"


def memory(size: float) -> str:
    return f"{size / GiB:,.1f} GiB" if size >= 0.05 * GiB else f"{size / 2**20:,.1f} MiB"


def shares(parts: dict[str, float]) -> str:
    whole = sum(parts.values()) or 1.0
    return ", ".join(f"{name} {100 * part / whole:.1f} %" for name, part in parts.items() if part)


def rows(plan: TrainingPlan) -> Rows:
    """What a plan says, by subject."""
    return [*of_model(plan), ("", ""), *of_memory(plan), ("", ""), *of_time(plan), *[("note", note) for note in plan.subject.notes]]


def of_model(plan: TrainingPlan) -> Rows:
    counts, subject = plan.footprint.counts, plan.subject
    unit = "token" if subject.tokens > 1 else "example"
    estimate = f"; the estimate 6 N + 12 L D T is {counts.estimate:.4g}" if subject.tokens > 1 else ""
    return [
        ("parameters", f"{counts.parameters:,} ({shares(dict(counts.parts))})"),
        (f"FLOPs per {unit}", f"{counts.total:.4g}: forward {sum(counts.forward.values()):.4g} ({shares(counts.forward)})"),
        ("", f"backward {counts.backward:.4g}{estimate}"),
        ("batch", f"{subject.batch:,} examples" + (f" of {subject.tokens:,} tokens" if subject.tokens > 1 else "")),
        ("layout", plan.choice.layout.words(subject.batch)),
        *([("", command)] if (command := plan.choice.layout.command(plan.device.per_node, subject.batch)) else []),
    ]


def of_memory(plan: TrainingPlan) -> Rows:
    need, device = plan.choice.need, plan.device
    kind = "compiled" if plan.footprint.compiled else "not compiled"
    lines = [("memory per device", f"{memory(need.total)} of {memory(device.memory)} at the fullest moment of a step, {kind}")]
    if plan.footprint.compiled:
        lines.append(("", f"logits {plan.logits}; blocks keep {plan.activations} for the backward pass"))
    return [*lines, *((f"  {name}", memory(size)) for name, size in need.parts.items() if size)]


def of_time(plan: TrainingPlan) -> Rows:
    unit, power = "tokens" if plan.subject.tokens > 1 else "examples", plan.energy()
    asked = "asked for" if plan.request.mfu else "estimated"
    reached = f"MFU {100 * plan.mfu:.1f} % of {plan.device.peak / 1e12:,.3g} TFLOP/s ({asked})"
    lines = [("step", f"{plan.seconds:.3g} s, {quantity(plan.rate)} {unit}/s, {reached}")]
    if not plan.request.mfu:
        lines += [(f"  {name}", f"{seconds:.3g} s") for name, seconds in plan.choice.time.parts.items()]
    if not plan.tokens:
        return [*lines, ("run", f"say how many {unit} with --tokens")]
    flop = scaling.compute(plan.footprint.counts.parameters, plan.tokens)
    watts = f"{plan.device.watts:,.0f} W each, PUE {plan.request.pue}, {plan.request.carbon} kg CO2 per kWh"
    lines += [
        ("", ""),
        ("run", f"{quantity(plan.tokens)} {unit}: {duration(plan.days * 86400)}, {power['device_hours']:,.4g} device-hours"),
    ]
    if plan.subject.tokens > 1:
        years = f"{scaling.v100_years(flop):,.4g} years of a V100 at 28 TFLOP/s"
        lines.append(("compute", f"6 N D = {flop:.3g} FLOP = {scaling.pf_days(flop):,.4g} PF-days = {years}"))
    if plan.subject.scaled:
        size, data = scaling.chinchilla_optimum(flop)
        if (found := plan.footprint.counts.parameters) >= FITTED:
            loss = scaling.chinchilla_loss(found, plan.tokens)
            lines.append(("loss to expect", f"{loss:.2f} nats per token of web text in pieces of words (Hoffmann et al. 2022)"))
        lines.append(("compute-optimal", f"{quantity(size)} parameters on {quantity(data)} tokens (20 each, Hoffmann et al. 2022)"))
    lines.append(("energy", f"{power['kwh']:,.3g} kWh, {power['co2_kg']:,.3g} kg CO2 ({watts})"))
    return [*lines, *([("cost", f"{plan.cost:,.3g} at {plan.request.price:,g} for a device-hour")] if plan.request.price else [])]


def growth() -> Rows:
    """Parameters of the GPTs, and what training them took."""
    table: Rows = [("model", "year", "layers", "width", "heads", "context", "parameters", "printed", "times GPT-1", "FLOP", "PF-days")]
    for row in scaling.growth():
        known = float(row["flop"]) > 0
        cost = (f"{row['flop']:.3g}", f"{row['pf_days']:,.4g}") if known else ("", "")
        shape = tuple(str(row[name]) for name in ("model", "year", "layers", "width", "heads", "context"))
        table.append((*shape, f"{row['parameters']:,}", quantity(float(row["printed"])), f"{row['times']:,.1f}", *cost))
    return table
