"""A picture of an audit: what each attack proves, beside the claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Self

from ..reports.wording import round_down
from .claims import Claim
from .finding import Finding

if TYPE_CHECKING:
    from .audit_result import AuditResult

# Colours of Okabe and Ito (2008), which the colour-blind can tell apart. Hatches and marks differ without colour, too.
KEPT: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "#0072B2", "hatch": ""}
BROKEN: dict[str, Any] = {"facecolor": "#F5C9A8", "edgecolor": "#D55E00", "hatch": "////"}
LONGEST = 44  # letters of a line of a label, which has two lines at most
MOST = 20  # bars; those that prove least are left out
FARTHEST = 8.0  # claims: what is larger leaves the picture at its right edge
ROOM = 1.08  # how far the axis reaches beyond what is drawn


class AuditDisplay:
    """A bar for each attack, as long as the epsilon that it proves, and a line at the claim.

    A promise is broken where a bar is hatched. Bars whose bound is infinite, or many times the claim, end in an arrow.
    An open circle is an estimate of what the attack would prove with infinitely many fits. Create it with
    :meth:`from_result`.

    Parameters
    ----------
    claim : Claim
    findings : sequence of Finding
    title : str
    confidence : float
        How sure all bars are, together.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, claim: Claim, findings: Sequence[Finding], title: str, confidence: float) -> None:
        self.claim, self.title, self.confidence = claim, title, confidence
        self.findings = tuple(sorted(findings, key=lambda one: -one.epsilon))

    @classmethod
    def from_result(cls, result: AuditResult, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw the result of an audit.

        Parameters
        ----------
        result : AuditResult
        ax : matplotlib Axes or None
            Where to draw. None: a new figure.
        name : str or None
            What the title calls the estimator. None: what the result calls it.
        """
        said = "the promise is REFUTED" if result.refuted else "not refuted"
        called = _short(result.estimator if name is None else name)
        return cls(result.claim, result.findings, f"{called}\n{said}", result.confidence).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw in these axes, or in a new figure, and return the display."""
        shown = self.findings[:MOST]
        self.ax_ = _new_axes(len(shown)) if ax is None else ax
        self.figure_ = self.ax_.figure
        far = self._far(shown)
        for k, one in enumerate(shown):
            self._draw_bar(k, one, far)
        self.ax_.axvline(self.claim.epsilon, color="black", linewidth=2, zorder=2)
        self.ax_.set(xlim=(0, far), ylim=(max(1, len(shown)) - 0.4, -0.6))
        self._describe(shown)
        if ax is None:
            self.figure_.legend(handles=self._keys(shown, far), loc="outside lower center", ncols=2, fontsize="small")
        else:
            self.ax_.legend(handles=self._keys(shown, far), loc="best", fontsize="small")
        return self

    def _far(self, shown: Sequence[Finding]) -> float:
        """Return the largest epsilon that fits into the picture."""
        numbers = [one.epsilon for one in shown] + [one.estimate for one in shown if one.estimate is not None]
        most = FARTHEST * self.claim.epsilon
        return max([self.claim.epsilon] + [number for number in numbers if number <= most]) * ROOM

    def _draw_bar(self, k: int, one: Finding, far: float) -> None:
        style = BROKEN if broken(one, self.claim) else KEPT
        end = min(one.epsilon, far)
        self.ax_.barh(k, end, height=0.62, linewidth=1, zorder=1, **style)
        if one.epsilon > far:
            self.ax_.plot(end, k, ">", color=style["edgecolor"], markersize=12, zorder=3, clip_on=False)
        if one.estimate is not None and _has_mark(one, far):
            self.ax_.plot([end, one.estimate], [k, k], color="black", linewidth=1, linestyle=":", zorder=2)
            open_mark: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "black", "markersize": 6}
            self.ax_.plot(one.estimate, k, "o", zorder=3, **open_mark)
        number = "infinite" if math.isinf(one.epsilon) else round_down(one.epsilon, 3)
        beside: dict[str, Any] = {
            "xycoords": self.ax_.get_yaxis_transform(),
            "textcoords": "offset points",
            "xytext": (12, 0),
        }
        self.ax_.annotate(number, (1, k), va="center", fontsize="small", annotation_clip=False, **beside)

    def _keys(self, shown: Sequence[Finding], far: float) -> list[Any]:
        """Return what the legend explains."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        keys: list[Any] = [Line2D([], [], color="black", linewidth=2, label=f"claim: {self.claim.epsilon:g}")]
        sure = f"({confidence_words(self.confidence)} sure)"
        if not all(broken(one, self.claim) for one in shown):
            keys.append(Patch(label=f"bar and number: epsilon is at least this {sure}", **KEPT))
        if any(broken(one, self.claim) for one in shown):
            keys.append(Patch(label=f"the promise is broken {sure}", **BROKEN))
        if any(_has_mark(one, far) for one in shown):
            circle: dict[str, Any] = {"marker": "o", "linestyle": ":", "color": "black", "markerfacecolor": "white"}
            keys.append(Line2D([], [], label="estimate for infinitely many fits", **circle))
        return keys

    def _describe(self, shown: Sequence[Finding]) -> None:
        self.ax_.set_yticks(range(len(shown)), [_in_lines(f"{one.attack}: {one.pair}") for one in shown])
        self.ax_.tick_params(axis="y", labelsize="small")
        left_out = len(self.findings) - len(shown)
        more = f"\n{left_out} more attacks prove less" if left_out else ""
        delta = f" at delta = {self.claim.delta:g}" if self.claim.delta else ""
        self.ax_.set_xlabel(f"epsilon{delta}")
        self.ax_.set_title(f"{self.title}{more}", fontsize="medium")
        if not shown:
            self.ax_.text(0.5, 0.5, "no attack", ha="center", transform=self.ax_.transAxes)
        for side in ("top", "right"):
            self.ax_.spines[side].set_visible(False)


def broken(one: Finding, claim: Claim) -> bool:
    """Return whether this attack shows that the promise is false."""
    return bool(one.refuted or one.leaks or one.epsilon > claim.epsilon * (1 + 1e-6))


def confidence_words(confidence: float) -> str:
    """Return a confidence in per cent, with all its digits."""
    return f"{round_down(100 * confidence, 12)} %"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _in_lines(text: str) -> str:
    return "\n".join(wrap(text, LONGEST, max_lines=2, placeholder="…"))


def _has_mark(one: Finding, far: float) -> bool:
    """Return whether the estimate of an attack is drawn."""
    return one.estimate is not None and one.epsilon <= one.estimate <= far


def _new_axes(count: int) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("AuditDisplay draws with matplotlib: pip install 'dpsk[plot]'") from None
    high = max(1, count) * 0.36 + 1.7
    return pyplot.figure(figsize=(7.2, high), layout="constrained").add_subplot()
