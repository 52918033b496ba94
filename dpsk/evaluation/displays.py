"""Pictures of a private evaluation: curves with their bands, and counts with their intervals.

A curve is known at the edges between bins, which are marked. There the point of the population lies in a box of two
ranges, in all boxes together as often as the legend says. The band joins one box to the next by straight lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import expit

from ..mechanisms.samplers import Floats
from ..privacy.report import round_up
from ..privacy.units import several
from .curves import PrecisionRecallCurve, RocCurve
from .release import LARGEST
from .results import ConfusionMatrix, PrivateEvaluation
from .several_classes import MulticlassEvaluation
from .sureness import CalibrationCurve
from .two_classes import BinaryEvaluation

# Colours of Okabe and Ito (2008), which the colour-blind can tell apart. Lines and marks differ without colour, too.
STYLES = (
    {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    {"color": "#009E73", "linestyle": "-.", "marker": "^"},
    {"color": "#000000", "linestyle": ":", "marker": "D"},
)
SHADE = 0.2  # of a band
DARK = 0.5  # part of a class, from which text on its cell is white
CELL = 0.8  # inches
LETTER = 0.6  # of its height: how wide a letter is at most, on average
FARTHEST = float(expit(LARGEST))  # probability that axes of log-odds show
TICKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
AREA = 300.0  # area of the mark of a bin that holds all rows, in square points


class _Display(ABC):
    """What is drawn in one pair of axes."""

    wide: float = 5.2  # inches of a new figure

    def plot(self, *, ax: Any = None) -> Self:
        """Draw in these axes, or in a new figure, and return the display."""
        self.ax_ = _new_axes(self) if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw()
        return self

    @abstractmethod
    def _draw(self) -> None:
        """Draw in ``ax_``."""


class PrivateRocCurveDisplay(_Display):
    """A ROC curve with its band. Create it with :meth:`from_evaluation`.

    Parameters
    ----------
    curve : RocCurve
    label : str
        What the legend says of it.
    of : str
        The positive class.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, curve: RocCurve, label: str, of: str) -> None:
        self.curve, self.label, self.of = curve, label, of

    @classmethod
    def from_evaluation(cls, evaluation: PrivateEvaluation, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw the ROC curve of an evaluation.

        Parameters
        ----------
        evaluation : BinaryEvaluation
        ax : matplotlib Axes or None
            Where to draw; several curves may share it. None: a new figure.
        name : str or None
            What the legend calls the model.
        """
        one = _one_class(evaluation, cls)
        label = _label(one, name, f"AUC {one.auc}", "band")
        return cls(one.roc_curve(), label, _class(one)).plot(ax=ax)

    def _draw(self) -> None:
        curve = self.curve
        self.ax_.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
        _draw_curve(self.ax_, (curve.fpr, curve.tpr), (curve.fpr_band, curve.tpr_band), self.label)
        self.ax_.set(xlabel="false positive rate", ylabel=f"true positive rate (recall of {self.of})")


class PrivatePrecisionRecallDisplay(_Display):
    """Precision over recall with its band. Create it with :meth:`from_evaluation`.

    The line is the part of the positive class: the precision of a model that knows nothing.

    Parameters
    ----------
    curve : PrecisionRecallCurve
    label : str
        What the legend says of it.
    of : str
        The positive class.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, curve: PrecisionRecallCurve, label: str, of: str) -> None:
        self.curve, self.label, self.of = curve, label, of

    @classmethod
    def from_evaluation(cls, evaluation: PrivateEvaluation, *, ax: Any = None, name: str | None = None) -> Self:
        """Draw the curve of precision over recall; parameters are those of :class:`PrivateRocCurveDisplay`."""
        one = _one_class(evaluation, cls)
        label = _label(one, name, f"average precision {one.average_precision}", "band")
        return cls(one.precision_recall_curve(), label, _class(one)).plot(ax=ax)

    def _draw(self) -> None:
        curve = self.curve
        self.ax_.axhline(curve.precision[-1], color="0.6", linewidth=1, zorder=1)
        points, bands = (curve.recall, curve.precision), (curve.recall_band, curve.precision_band)
        _draw_curve(self.ax_, points, bands, self.label)
        self.ax_.set(xlabel=f"recall of {self.of}", ylabel="precision")


class PrivateCalibrationDisplay(_Display):
    """How often rows belong to the class, beside the probability that they were given, by bin.

    A box is as wide as its bin and as high as its band. Where a box misses the diagonal, probabilities are wrong on
    average. The area of a mark is in proportion to the rows in its bin. Create it with :meth:`from_evaluation`.

    Parameters
    ----------
    curve : CalibrationCurve
    label : str
        What the legend says of it.
    of : str
        What the probabilities are for.
    log_odds : bool
        Whether the axes are even in log-odds.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, curve: CalibrationCurve, label: str, of: str, *, log_odds: bool = False) -> None:
        self.curve, self.label, self.of, self.log_odds = curve, label, of, log_odds

    @classmethod
    def from_evaluation(
        cls, evaluation: PrivateEvaluation, *, log_odds: bool = False, ax: Any = None, name: str | None = None
    ) -> Self:
        """Draw the calibration of an evaluation; with several classes, that of the class that is predicted.

        Parameters
        ----------
        evaluation : BinaryEvaluation or MulticlassEvaluation
        log_odds : bool
            Whether the axes are even in log-odds, which shows small probabilities of a rare class apart.
        ax, name
            As for :class:`PrivateRocCurveDisplay`.
        """
        curve = evaluation.calibration_curve()
        label = _label(evaluation, name, f"ECE {evaluation.ece}", "boxes")
        return cls(curve, label, _class(evaluation), log_odds=log_odds).plot(ax=ax)

    def _draw(self) -> None:
        curve, style, shown = self.curve, _style(self.ax_), (0.0, 1.0)
        if self.log_odds:
            shown = 1 - FARTHEST, FARTHEST
            self.ax_.set(xscale="logit", yscale="logit")
            for axis in (self.ax_.xaxis, self.ax_.yaxis):
                axis.set_ticks(TICKS, [f"{tick:g}" for tick in TICKS])
                axis.set_ticks([], minor=True)
        low, high = np.clip(curve.band, *shown).T
        ends = np.concatenate([[shown[0]], curve.edges, [shown[1]]])
        bars = {"align": "edge", "color": style["color"], "alpha": SHADE, "linewidth": 0, "zorder": 0}
        self.ax_.bar(ends[:-1], high - low, np.diff(ends), low, **bars)
        self.ax_.plot(shown, shown, color="0.6", linewidth=1, zorder=1)
        area = AREA * curve.counts / curve.counts.sum()
        marks = {"color": style["color"], "marker": style["marker"], "zorder": 2}
        points = np.clip([curve.predicted, curve.observed], *shown)
        self.ax_.scatter(*points, area, label=self.label, **marks)
        self.ax_.set(xlabel=f"mean probability of {self.of}", ylabel=f"part that belongs to {self.of}")
        self.ax_.set(xlim=shown, ylim=shown, aspect="equal")
        self.ax_.legend(loc="upper left", fontsize="small")


class PrivateConfusionMatrixDisplay(_Display):
    """A confusion matrix, each count with its interval. Create it with :meth:`from_evaluation`.

    The intervals are for these rows: they allow for the noise. A cell is the darker, the larger a part of its true
    class it holds, so the cells of a rare class can be told apart.

    Parameters
    ----------
    matrix : ConfusionMatrix
    title : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, matrix: ConfusionMatrix, title: str) -> None:
        self.matrix, self.title = matrix, title
        self.wide = max(self.wide, 1.5 + len(matrix.labels) * CELL)

    @classmethod
    def from_evaluation(
        cls,
        evaluation: BinaryEvaluation | MulticlassEvaluation,
        *,
        threshold: float | None = None,
        ax: Any = None,
        name: str | None = None,
    ) -> Self:
        """Draw the confusion matrix of an evaluation.

        Parameters
        ----------
        evaluation : BinaryEvaluation or MulticlassEvaluation
        threshold : float or None
            From where on rows count as positive. None: what the model predicts.
        ax : matplotlib Axes or None
            Where to draw. None: a new figure.
        name : str or None
            What the title calls the model.
        """
        if threshold is None:
            matrix, told = evaluation.confusion_matrix(), ""
        else:
            matrix, told = _one_class(evaluation, cls).confusion_matrix(threshold), f"threshold {threshold:.3g}"
        return cls(matrix, _label(evaluation, name, told, "intervals")).plot(ax=ax)

    def _draw(self) -> None:
        matrix, n = self.matrix, len(self.matrix.labels)
        texts = dict[tuple[int, ...], str]()
        for cell in np.ndindex(n, n):
            low, high = matrix.interval_on_rows[cell]
            texts[cell] = f"{matrix.counts[cell]:,.0f}\n({low:,.0f} to {high:,.0f})"
        parts = matrix.counts / np.maximum(matrix.counts.sum(axis=1, keepdims=True), 1.0)
        self.ax_.imshow(parts, cmap="Blues", vmin=0, vmax=1)
        points = self.ax_.get_window_extent().width / self.figure_.dpi * 72 / n  # a cell is as wide as that
        size = min(10.0, points / LETTER / max(len(text.split("\n")[1]) for text in texts.values()))
        for (i, j), text in texts.items():
            colour = "white" if parts[i, j] > DARK else "black"
            self.ax_.text(j, i, text, ha="center", va="center", color=colour, fontsize=size)
        names = [str(label) for label in matrix.labels]
        self.ax_.set_xticks(range(n), names, rotation=0 if n < 4 else 45)
        self.ax_.set_yticks(range(n), names)
        self.ax_.set(xlabel="predicted class", ylabel="true class")
        self.ax_.set_title(self.title, fontsize="small")


def _one_class(evaluation: PrivateEvaluation, display: type) -> BinaryEvaluation:
    if isinstance(evaluation, BinaryEvaluation):
        return evaluation
    raise TypeError(
        f"{display.__name__} draws one class against all others, and this evaluation is of {len(evaluation.labels)} "
        "at once: give positive=, the label of the class, to private_evaluation"
    )


def _class(evaluation: PrivateEvaluation) -> str:
    return f"class {evaluation.positive}" if isinstance(evaluation, BinaryEvaluation) else "the predicted class"


def _label(evaluation: PrivateEvaluation, name: str | None, told: str, ranges: str) -> str:
    """Return lines that say what is drawn and how far it can be trusted."""
    units = f"{evaluation.n_units:,} {several(evaluation.unit)}"
    spent = evaluation.privacy_spent
    promise = f"epsilon = {round_up(spent.epsilon, 4)}" if spent.private else "NOT PRIVATE (seeded)"
    lines = [name or "", told, f"{units}, {promise}, {100 * evaluation.confidence:g} % {ranges}"]
    return "\n".join(line for line in lines if line)


def _new_axes(display: _Display) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(f"{type(display).__name__} draws with matplotlib: pip install 'dpsk[plot]'") from None
    return pyplot.figure(figsize=(display.wide, display.wide - 0.4), layout="constrained").add_subplot()


def _style(ax: Any) -> dict[str, Any]:
    """Return the style of the next curve in these axes."""
    return STYLES[len(ax.get_legend_handles_labels()[1]) % len(STYLES)]


def _draw_curve(ax: Any, points: tuple[Floats, Floats], bands: tuple[Floats, Floats], label: str) -> None:
    """Draw a line with marks at the edges between bins, and its band."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    style = _style(ax)
    ax.plot(*points, label=label, markersize=3, linewidth=1.2, zorder=2, **style)
    boxes = np.hstack(bands)  # left, right, low, high
    outlines = [Path(_hull(*pair), closed=True) for pair in pairwise(boxes)]
    band = Path.make_compound_path(*outlines)
    ax.add_patch(PathPatch(band, facecolor=style["color"], alpha=SHADE, linewidth=0, zorder=0))
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.legend(fontsize="small")


def _hull(box: Floats, following: Floats) -> Floats:
    """Return the corners of the hull of two boxes, counter-clockwise; the second lies to the right of the first."""
    (left, right, low, high), (left_2, right_2, low_2, high_2) = box, following
    below = (right, low) if low_2 >= low else (left_2, low_2)
    above = (left_2, high_2) if high_2 >= high else (right, high)
    corners = [(left, low), below, (right_2, low_2), (right_2, high_2), above, (left, high), (left, low)]
    return np.array(corners)
