"""A picture of an audit: what each attack proves, beside the claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from ..reports.visible import cut_in_the_middle
from ..reports.wording import LEAST_SHOWN, SEEN, proved_words
from .claims import Claim
from .finding import Finding
from .finding_words import broken, by_a_leak, confidence_words

if TYPE_CHECKING:
    from .audit_result import AuditResult

# Colours of Okabe and Ito (2008), which the colour-blind can tell apart. Hatches and marks differ without colour, too.
KEPT: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "#0072B2", "hatch": ""}
BROKEN: dict[str, Any] = {"facecolor": "#F5C9A8", "edgecolor": "#D55E00", "hatch": "////"}
LONGEST = 70  # letters of a title
MOST = 8  # bars; those that prove least are left out
FARTHEST = 8.0  # claims: what is larger leaves the picture at its right edge
ROOM = 1.08  # how far the axis reaches beyond what is drawn
_ROW, _BAR = 20.0, 0.36  # points that an attack needs, and which part of them is its bar
_LETTER = 4.6  # points that a letter of a name needs


class AuditDisplay:
    """A bar for each attack, as long as the epsilon that it proves, and a line at the claim.

    A promise is broken where a bar is hatched. Bars whose bound is infinite, or many times the claim, end in an arrow.
    A bar as wide as the picture stands where the promise is broken by what was seen without noise. An open circle is an
    estimate of what the attack would prove with infinitely many fits. At most 8 attacks are drawn, among them the best
    of each kind; fewer where axes are low. Create it with :meth:`from_result`.

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
        self.findings = tuple(sorted(findings, key=self._strength, reverse=True))

    def _strength(self, one: Finding) -> tuple[bool, float]:
        return broken(one, self.claim), one.epsilon

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
        called = cut_in_the_middle(result.estimator if name is None else name, LONGEST)
        return cls(result.claim, result.findings, f"{called}: {said}", result.confidence).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw in these axes, or in a new figure, and return the display."""
        shown = chosen(self.findings, MOST)
        self.ax_ = _new_axes(len(shown)) if ax is None else ax
        self.figure_ = self.ax_.figure
        wide, high = _size_in_points(self.ax_)
        bottom = 0.0
        if ax is None:
            self.figure_.legend(handles=self._keys(shown), loc="outside lower center", ncols=2, fontsize="small")
        else:  # the room around these axes belongs to others
            below: dict[str, Any] = {"loc": "lower left", "ncols": 2, "fontsize": "x-small"}
            legend = self.ax_.legend(handles=self._keys(shown), **below)
            bottom = legend.get_window_extent().height * 72 / self.figure_.dpi + 6
            shown = chosen(self.findings, max(1, min(MOST, int((high - bottom) / _ROW))))
            self.ax_.legend(handles=self._keys(shown), **below)
        far = self._far(shown)
        row = (high - bottom) / max(1, len(shown))
        names = _names(shown)
        for k, one in enumerate(shown):
            self._draw_bar(k, one, far)
            short = cut_in_the_middle(names[k], int(wide / _LETTER))
            beside: dict[str, Any] = {"xycoords": self.ax_.get_yaxis_transform(), "textcoords": "offset points"}
            size = "small" if row >= 1.2 * _ROW else "x-small"
            over = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            self.ax_.annotate(short, (0, k - 0.22), xytext=(3, 0), va="center", fontsize=size, bbox=over, **beside)
        self.ax_.axvline(self.claim.epsilon, color="black", linewidth=2, zorder=2)
        self.ax_.set(xlim=(0, far), ylim=(max(1, len(shown)) - 0.45 + bottom / row, -0.55), yticks=[])
        self._describe(shown)
        return self

    def _far(self, shown: Sequence[Finding]) -> float:
        """Return the largest epsilon that fits into the picture."""
        numbers = [one.epsilon for one in shown] + [one.estimate for one in shown if one.estimate is not None]
        most = FARTHEST * self.claim.epsilon
        return max([self.claim.epsilon] + [number for number in numbers if number <= most]) * ROOM

    def _draw_bar(self, k: int, one: Finding, far: float) -> None:
        style, leaked = BROKEN if broken(one, self.claim) else KEPT, by_a_leak(one, self.claim)
        end = far if leaked else min(one.epsilon, far)
        middle = k + 0.25
        self.ax_.barh(middle, end, height=_BAR, linewidth=1, zorder=1, **style)
        if leaked:
            over = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            self.ax_.text(far / 2, middle, SEEN, ha="center", va="center", fontsize="x-small", bbox=over, zorder=4)
            return
        if one.epsilon > far:
            self.ax_.plot(end, middle, ">", color=style["edgecolor"], markersize=10, zorder=3, clip_on=False)
        if one.estimate is not None and self._has_mark(one):
            self.ax_.plot([end, one.estimate], [middle, middle], color="black", linewidth=1, linestyle=":", zorder=2)
            open_mark: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5}
            self.ax_.plot(one.estimate, middle, "o", zorder=3, **open_mark)
        beside: dict[str, Any] = {
            "xycoords": self.ax_.get_yaxis_transform(),
            "textcoords": "offset points",
            "xytext": (8, 0),
        }
        self.ax_.annotate(
            proved_words(one.epsilon), (1, middle), va="center", fontsize="small", annotation_clip=False, **beside
        )

    def _has_mark(self, one: Finding) -> bool:
        """Return whether the estimate of an attack is drawn: one of 0 says nothing."""
        if one.estimate is None or one.estimate < LEAST_SHOWN or by_a_leak(one, self.claim):
            return False
        return one.epsilon <= one.estimate <= FARTHEST * self.claim.epsilon

    def _keys(self, shown: Sequence[Finding]) -> list[Any]:
        """Return what the legend explains."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        keys: list[Any] = [Line2D([], [], color="black", linewidth=2, label=f"claim: {self.claim.epsilon:g}")]
        sure = f"({confidence_words(self.confidence)} sure)"
        if not all(broken(one, self.claim) for one in shown):
            keys.append(Patch(label=f"epsilon is at least this {sure}", **KEPT))
        if any(broken(one, self.claim) for one in shown):
            keys.append(Patch(label=f"the promise is broken {sure}", **BROKEN))
        if any(self._has_mark(one) for one in shown):
            circle: dict[str, Any] = {"marker": "o", "linestyle": ":", "color": "black", "markerfacecolor": "white"}
            keys.append(Line2D([], [], label="estimate for infinitely many fits", **circle))
        return keys

    def _describe(self, shown: Sequence[Finding]) -> None:
        left_out = len(self.findings) - len(shown)
        more = f" ({left_out} more attack{' is' if left_out == 1 else 's are'} not shown)" if left_out else ""
        delta = f" at delta = {self.claim.delta:g}" if self.claim.delta else ""
        self.ax_.set_xlabel(f"epsilon{delta}{more}")
        self.ax_.set_title(self.title, fontsize="medium")
        if not shown:
            self.ax_.text(0.5, 0.5, "no attack", ha="center", transform=self.ax_.transAxes)
        for side in ("top", "right"):
            self.ax_.spines[side].set_visible(False)


def chosen(findings: Sequence[Finding], most: int) -> list[Finding]:
    """Return the strongest findings, of each attack the first one at least, with those of one attack together."""
    best = dict[str, Finding]()
    for one in findings:
        best.setdefault(one.attack, one)
    first = list(best.values())[:most]
    rest = [one for one in findings if not any(one is other for other in first)]
    kept = [*first, *rest[: most - len(first)]]
    return [one for attack in best for one in findings if one.attack == attack and any(one is two for two in kept)]


def _names(shown: Sequence[Finding]) -> list[str]:
    """Return the attack and the pair of each finding, without what all pairs begin with."""
    beginnings = {one.pair.partition(": ")[0] for one in shown if ": " in one.pair}
    same = len(beginnings) == 1 and all(": " in one.pair for one in shown)
    return [f"{one.attack}: {one.pair.partition(': ')[2] if same else one.pair}" for one in shown]


def _size_in_points(ax: Any) -> tuple[float, float]:
    box = ax.get_window_extent()
    return box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi


def _new_axes(count: int) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("AuditDisplay draws with matplotlib: pip install 'dpsk[plot]'") from None
    high = max(1, count) * 0.4 + 1.5
    return pyplot.figure(figsize=(7.2, high), layout="constrained").add_subplot()
