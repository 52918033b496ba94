"""A picture of an audit as SVG: what each attack proves, beside the claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .audited_promise import attacked
from .drawings import WIDE, Picture, as_svg
from .visible import cut_in_the_middle, html_text
from .wording import LEAST_SHOWN, SEEN, proved_words

_ROW, _BAR, _GAP = 36, 13, 17  # height of an attack and of its bar, and where the bar begins
_END = WIDE - 72  # where bars end; numbers stand beside it
_MOST, _LETTERS = 4, 46  # attacks, and letters of a name
_FARTHEST = 8.0  # claims: longer bars end in an arrow


def audited(audit: dict[str, Any]) -> Picture | None:
    """Draw a bar for each attack, and a line at the claim; None if the audit does not tell its findings."""
    claim = attacked(audit)
    findings = [] if claim is None else _findings(audit["result"], claim[0])
    if claim is None or not findings:
        return None
    shown, epsilon = _chosen(findings), claim[0]
    marks = [mark for one in shown for mark in (one.bound, one.estimate) if mark is not None]
    far = 1.08 * max([epsilon] + [mark for mark in marks if mark <= _FARTHEST * epsilon])
    rows = "".join(_row(k, one, far, epsilon) for k, one in enumerate(shown))
    high = len(shown) * _ROW + 20
    x = _END * epsilon / far
    rows += f'<text x="{x:.1f}" y="{high - 5}" text-anchor="middle">claim: {epsilon:g}</text>'
    alt = f"The claim is epsilon = {epsilon:g}. Proved: " + "; ".join(_in_words(one) for one in shown)
    left_out = len(findings) - len(shown)
    more = f" {left_out} more attack{' is' if left_out == 1 else 's are'} not shown." if left_out else ""
    caption = _caption(shown, claim[1], far) + more
    return Picture(as_svg(rows, f"{alt}.{more}", high=high), f"{alt}.{more}", caption)


def _caption(shown: list[_Bar], delta: float, far: float) -> str:
    """Return what lines, hatches and marks mean, as far as they are there."""
    at = f" at delta = {delta:g}" if delta else ""
    caption = f"Epsilon{at} is at least as large as each bar. Line: the claim."
    if any(one.broken for one in shown):
        caption += " A hatched bar breaks the promise."
    if any(one.leaked for one in shown):
        caption += f" Leak: {SEEN}."
    if any(_has_circle(one, far) for one in shown):
        caption += " Open circle: estimate for infinitely many fits."
    return caption


@dataclass(frozen=True)
class _Bar:
    """An attack as it is drawn; ``leaked`` if what it saw without noise breaks the promise, and no count does."""

    name: str
    bound: float
    estimate: float | None
    broken: bool
    leaked: bool


def _in_words(one: _Bar) -> str:
    if one.leaked:
        return f"{one.name}, {SEEN}, which breaks the promise"
    return f"{one.name}, {proved_words(one.bound)} or more{', which breaks the promise' if one.broken else ''}"


def _findings(result: Any, epsilon: float) -> list[_Bar]:
    """Return what to draw of each attack, the strongest first; a bound may be infinite."""
    found = result.get("findings") if isinstance(result, dict) else None
    known = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    pairs = [str(one.get("pair", "data sets")) for one in known]
    same = len({pair.partition(": ")[0] for pair in pairs}) == 1 and all(": " in pair for pair in pairs)
    read = list[_Bar]()
    for one, pair in zip(known, pairs, strict=True):
        if "epsilon" in one:
            name = f"{one.get('attack', 'attack')}: {pair.partition(': ')[2] if same else pair}"
            bound, broken = _float(one["epsilon"], math.inf), bool(one.get("refuted"))
            leaked = broken and bool(one.get("leaks")) and bound <= epsilon * (1 + 1e-6)
            read.append(_Bar(name, bound, _float(one.get("estimate"), None), broken, leaked))
    return sorted(read, key=lambda one: (not one.broken, -one.bound))


def _chosen(findings: list[_Bar]) -> list[_Bar]:
    """Return the strongest attacks, that of each kind first."""
    kinds = dict[str, int]()
    for k, one in enumerate(findings):
        kinds.setdefault(one.name.partition(":")[0], k)
    first = list(kinds.values())[:_MOST]
    rest = [k for k in range(len(findings)) if k not in first]
    return [findings[k] for k in sorted((first + rest)[:_MOST])]


def _float(value: Any, otherwise: Any) -> Any:
    return float(value) if isinstance(value, int | float) else otherwise


def _has_circle(one: _Bar, far: float) -> bool:
    """Return whether an estimate is drawn: one of 0 says nothing."""
    return not one.leaked and one.estimate is not None and max(LEAST_SHOWN, one.bound) <= one.estimate <= far


def _row(k: int, one: _Bar, far: float, epsilon: float) -> str:
    top, middle = k * _ROW + _GAP, k * _ROW + _GAP + _BAR / 2
    part = 1.0 if one.leaked else min(one.bound, far) / far
    wide = max(_END * part, 1.0 if one.bound else 0.0)
    kind = "bar broken" if one.broken else "bar"
    parts = [
        f'<text x="0" y="{top - 5}">{html_text(cut_in_the_middle(one.name, _LETTERS))}</text>',
        f'<rect class="{kind}" x="0" y="{top}" width="{wide:.1f}" height="{_BAR}"/>',
    ]
    if one.broken:
        parts += [
            f'<line class="hatch" x1="{x}" y1="{top + _BAR}" x2="{x + _BAR}" y2="{top}"/>'
            for x in range(2, int(wide) - _BAR, 9)
        ]
    if one.bound > far and not one.leaked:
        tip = f"{_END},{top - 3} {_END + 14},{middle} {_END},{top + _BAR + 3}"
        parts.append(f'<polygon class="{kind}" points="{tip}"/>')
    if one.estimate is not None and _has_circle(one, far):
        x = _END * one.estimate / far
        parts.append(f'<line class="axis" x1="{wide:.1f}" y1="{middle}" x2="{x:.1f}" y2="{middle}"/>')
        parts.append(f'<circle class="open" cx="{x:.1f}" cy="{middle}" r="4.5"/>')
    x = _END * epsilon / far
    parts.append(f'<line class="claim" x1="{x:.1f}" y1="{top - 2}" x2="{x:.1f}" y2="{top + _BAR + 2}"/>')
    beside = "leak" if one.leaked else proved_words(one.bound)
    parts.append(f'<text x="{_END + 18}" y="{top + 11}">{beside}</text>')
    return "".join(parts)
