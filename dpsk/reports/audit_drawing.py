"""A picture of an audit as SVG: what each attack proves, beside the claim."""

from __future__ import annotations

import math
from typing import Any

from .drawings import WIDE, Picture, as_svg
from .visible import html_text
from .wording import attacked, round_down

_ROW, _BAR, _GAP = 36, 13, 17  # height of an attack and of its bar, and where the bar begins
_END = WIDE - 72  # where bars end; numbers stand beside it
_MOST, _LETTERS = 4, 46  # attacks, and letters of a name
_FARTHEST = 8.0  # claims: longer bars end in an arrow


def audited(audit: dict[str, Any]) -> Picture | None:
    """Draw a bar for each attack, and a line at the claim; None if the audit does not tell its findings."""
    claim, findings = attacked(audit), _findings(audit["result"])
    if claim is None or not findings:
        return None
    shown, epsilon = _chosen(findings), claim[0]
    marks = [mark for _, bound, estimate, _ in shown for mark in (bound, estimate) if mark is not None]
    far = 1.08 * max([epsilon] + [mark for mark in marks if mark <= _FARTHEST * epsilon])
    rows = "".join(_row(k, *one, far, epsilon) for k, one in enumerate(shown))
    high = len(shown) * _ROW + 20
    x = _END * epsilon / far
    rows += f'<text x="{x:.1f}" y="{high - 5}" text-anchor="middle">claim: {epsilon:g}</text>'
    alt = f"The claim is epsilon = {epsilon:g}. Proved: " + "; ".join(
        f"{name}, {_number(bound)} or more{', which breaks the promise' if broken else ''}"
        for name, bound, _, broken in shown
    )
    at = f" at delta = {claim[1]:g}" if claim[1] else ""
    more = f" {len(findings) - len(shown)} more attacks are not shown." if len(findings) > len(shown) else ""
    hatched = " A hatched bar breaks the promise." if any(broken for *_, broken in shown) else ""
    open_marks = " Open circle: estimate for infinitely many fits." if _any_circle(shown, far) else ""
    caption = f"Epsilon{at} is at least as large as each bar. Line: the claim.{hatched}{open_marks}{more}"
    return Picture(as_svg(rows, f"{alt}.{more}", high=high), f"{alt}.{more}", caption)


_Finding = tuple[str, float, float | None, bool]


def _findings(result: Any) -> list[_Finding]:
    """Return name, bound, estimate and refutation of each attack, the strongest first; a bound may be infinite."""
    found = result.get("findings") if isinstance(result, dict) else None
    known = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    read = [
        (
            f"{one.get('attack', 'attack')}: {one.get('pair', 'data sets')}",
            _float(one["epsilon"], math.inf),
            _float(one.get("estimate"), None),
            bool(one.get("refuted")),
        )
        for one in known
        if "epsilon" in one
    ]
    return sorted(read, key=lambda one: (-one[1], not one[3]))


def _chosen(findings: list[_Finding]) -> list[_Finding]:
    """Return the strongest attacks, that of each kind first."""
    kinds = dict[str, int]()
    for k, one in enumerate(findings):
        kinds.setdefault(one[0].partition(":")[0], k)
    first = list(kinds.values())[:_MOST]
    rest = [k for k in range(len(findings)) if k not in first]
    return [findings[k] for k in sorted((first + rest)[:_MOST])]


def _float(value: Any, otherwise: Any) -> Any:
    return float(value) if isinstance(value, int | float) else otherwise


def _number(bound: float) -> str:
    return "infinite" if math.isinf(bound) else round_down(bound, 3)


def _has_circle(bound: float, estimate: float | None, far: float) -> bool:
    return estimate is not None and bound <= estimate <= far


def _any_circle(shown: list[_Finding], far: float) -> bool:
    return any(_has_circle(bound, estimate, far) for _, bound, estimate, _ in shown)


def _row(k: int, name: str, bound: float, estimate: float | None, broken: bool, far: float, epsilon: float) -> str:
    top, middle = k * _ROW + _GAP, k * _ROW + _GAP + _BAR / 2
    wide = max(_END * min(bound, far) / far, 1.0 if bound else 0.0)
    short = name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
    kind = "bar broken" if broken else "bar"
    parts = [
        f'<text x="0" y="{top - 5}">{html_text(short)}</text>',
        f'<rect class="{kind}" x="0" y="{top}" width="{wide:.1f}" height="{_BAR}"/>',
    ]
    if broken:
        parts += [
            f'<line class="hatch" x1="{x}" y1="{top + _BAR}" x2="{x + _BAR}" y2="{top}"/>'
            for x in range(2, int(wide) - _BAR, 9)
        ]
    if bound > far:
        tip = f"{_END},{top - 3} {_END + 14},{middle} {_END},{top + _BAR + 3}"
        parts.append(f'<polygon class="{kind}" points="{tip}"/>')
    if estimate is not None and _has_circle(bound, estimate, far):
        x = _END * estimate / far
        parts.append(f'<line class="axis" x1="{wide:.1f}" y1="{middle}" x2="{x:.1f}" y2="{middle}"/>')
        parts.append(f'<circle class="open" cx="{x:.1f}" cy="{middle}" r="4.5"/>')
    x = _END * epsilon / far
    parts.append(f'<line class="claim" x1="{x:.1f}" y1="{top - 2}" x2="{x:.1f}" y2="{top + _BAR + 2}"/>')
    parts.append(f'<text x="{_END + 18}" y="{top + 11}">{_number(bound)}</text>')
    return "".join(parts)
