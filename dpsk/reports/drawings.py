"""Pictures of a guarantee as SVG, drawn without any other library. Colours are those of the page around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..privacy.report import round_up
from .attacker import Attacker
from .visible import cut_in_the_middle, html_text
from .wording import percent, percent_down

WIDE, HIGH = 320, 262
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 26, 42
_BAR, _MOST = 26, 12  # height of a bar, and how many there are
_ROOM = 165  # for labels of bars
_LETTERS = 20

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Picture:
    """A drawing, what it shows in words for those who do not see it, and its caption."""

    svg: str
    alt: str
    caption: str


def trade_off(one: dict[str, Any]) -> Picture:
    """Draw the two errors of the best test: false alarms and misses."""
    alone = Attacker(((one["epsilon"], one["delta"]),)).trade_off.tolist()
    lines = [
        ("perfect", [(0.0, 1.0), (1.0, 0.0)]),
        ("alone", alone),
        ("here", one["trade_off"]),
    ]
    even = next(belief for belief in one["attacker"] if belief["before"] == 0.5)
    alt = (
        f"Least misses against false alarms of a test of whether one {one['unit']} counted. With perfect privacy they "
        f"add up to 100 %. Here a test with as many false alarms as misses has "
        f"{percent_down(1 - even['right'])} of each, or more."
    )
    caption = (
        f"What a test can tell. Dotted: perfect privacy, no better than a coin. Solid: this guarantee; no test lies "
        f"below it. Dashed: what ({round_up(one['epsilon'], 4)}, {round_up(one['delta'], 3)}) alone would allow."
    )
    ticks = [(k / 4, f"{25 * k} %") for k in range(5)]
    axes = _axes(ticks, ticks, "false alarms", "misses")
    drawn = "".join(_line(name, [(u, 1 - v) for u, v in points]) for name, points in lines)
    return Picture(as_svg(axes + drawn, alt), alt, caption)


def profile(one: dict[str, Any]) -> Picture:
    """Draw delta against epsilon, with the stated pair marked."""
    attacker = Attacker(tuple((e, d) for e, d in one["profile"]))
    far = max(e for e, _ in one["profile"])
    epsilons = [far * k / 80 for k in range(81)]
    deltas = [attacker.delta(e) for e in epsilons]
    least = min((d for d in deltas if d > 1e-14), default=1e-3)
    if one["delta"]:
        least = min(least, one["delta"])
    decades = max(1, math.ceil(-math.log10(least)))

    def height(delta: float) -> float:
        return -math.log10(max(delta, 10.0**-decades)) / decades

    step = max(1, decades // 4)
    y_ticks = [(k / decades, "1" if not k else f"1e-{k}") for k in range(0, decades + 1, step)]
    x_ticks = [(tick / far, f"{tick:g}") for tick in _round_ticks(far)]
    points = [(e / far, height(d)) for e, d in zip(epsilons, deltas, strict=True)]
    x, y = _at(one["epsilon"] / far, height(one["delta"]))
    mark = f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    stated = f"({round_up(one['epsilon'], 4)}, {round_up(one['delta'], 3)})"
    shown = "; ".join(
        f"delta {round_up(attacker.delta(far * k / 4), 2)} at epsilon {round_up(far * k / 4, 3)}" for k in range(5)
    )
    alt = f"Delta falls as epsilon grows: {shown}. The stated pair is {stated}."
    caption = f"One guarantee, many pairs (epsilon, delta): all on the line hold together. The mark is {stated}."
    axes = _axes(x_ticks, y_ticks, "epsilon", "delta")
    return Picture(as_svg(axes + _line("here", points) + mark, alt), alt, caption)


def _round_ticks(far: float) -> list[float]:
    """Return from three to six round numbers from 0 on, at equal distances."""
    decade = 10.0 ** math.floor(math.log10(far))
    step = next(part * decade for part in (0.2, 0.5, 1.0, 2.0) if far / (part * decade) < 6)
    return [round(k * step, 12) for k in range(math.floor(far / step * (1 + 1e-9)) + 1)]


def spending(one: dict[str, Any]) -> Picture:
    """Draw what part of the limit each kind of release took."""
    shares = dict[str, float]()
    for release in one["releases"]:  # of one kind there may be some at several prices
        shares[release["label"]] = min(1.0, shares.get(release["label"], 0.0) + release["share"])
    bars = sorted(shares.items(), key=lambda bar: -bar[1])
    if len(bars) > _MOST:
        rest = bars[_MOST - 1 :]
        bars = [*bars[: _MOST - 1], (f"{len(rest)} others", min(1.0, math.fsum(share for _, share in rest)))]
    rows = "".join(_bar(k, name, share) for k, (name, share) in enumerate(bars))
    alt = "Parts of the budget: " + "; ".join(f"{name} {percent(share)}" for name, share in bars) + "."
    caption = "Where the budget went: parts of the limit, by kind of release."
    high = max(1, len(bars)) * _BAR + 4
    return Picture(as_svg(rows, alt, high=high), alt, caption)


def _bar(k: int, name: str, share: float) -> str:
    y, width = k * _BAR, (WIDE - _ROOM - 50) * share
    short = cut_in_the_middle(name, _LETTERS)
    return (
        f'<text x="{_ROOM - 6}" y="{y + 18}" text-anchor="end">{html_text(short)}</text>'
        f'<rect class="bar" x="{_ROOM}" y="{y + 5}" width="{max(width, 1):.1f}" height="{_BAR - 8}"/>'
        f'<text x="{_ROOM + max(width, 1) + 5:.1f}" y="{y + 18}">{percent(share)}</text>'
    )


def _at(x: float, y: float) -> tuple[float, float]:
    """Return the place of a point of the unit square, whose y points down."""
    return LEFT + x * (WIDE - LEFT - RIGHT), TOP + y * (HIGH - TOP - BOTTOM)


def _line(name: str, points: Iterable[Any]) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_at(u, v) for u, v in points))
    return f'<polyline class="{name}" points="{places}"/>'


def _axes(x_ticks: list[tuple[float, str]], y_ticks: list[tuple[float, str]], x_name: str, y_name: str) -> str:
    """Draw the two axes; ticks of misses are counted from below, those of a profile from above."""
    corners = [_at(0, 0), _at(0, 1), _at(1, 1)]
    drawn = "".join(
        f'<line class="axis" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'
        for (a, b), (c, d) in pairwise(corners)
    )
    upward = y_name == "misses"
    for place, text in x_ticks:
        x, y = _at(place, 1)
        drawn += f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{text}</text>'
    for place, text in y_ticks:
        x, y = _at(0, 1 - place if upward else place)
        drawn += f'<text x="{x - 6:.1f}" y="{y + 5:.1f}" text-anchor="end">{text}</text>'
    x, y = _at(0.5, 1)
    drawn += f'<text x="{x:.1f}" y="{y + 36:.1f}" text-anchor="middle">{x_name}</text>'
    return drawn + f'<text x="{LEFT - 6}" y="12" text-anchor="end">{y_name}</text>'


def as_svg(inside: str, alt: str, *, high: int = HIGH) -> str:
    """Return what is inside as an SVG of this height, with words for those who do not see it."""
    return f'<svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{html_text(alt)}">{inside}</svg>'
