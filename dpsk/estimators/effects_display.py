"""Pictures of the effects of a fitted model of raw tables, with their noise bands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..mechanisms.samplers import Floats
from ..requirements import require_number
from .effects import Effect, Effects

BAND = 2.0  # standard deviations of the noise, to either side
MOST_BARS = 12  # in one picture; those that matter least are left out
LONGEST = 22  # letters of a label
MARGIN = 0.08  # of the width of a curve, beside which missing numbers are shown
NOT_SHOWN = "without interactions"


class EffectsDisplay:
    """Curves and bars of a model, the most important first, with bands of two standard deviations of the noise.

    Create it with :meth:`from_estimator`. The bands estimate the noise that privacy needs, and nothing else:
    :mod:`dpsk.estimators.effects` says what is not in them. Interactions are not drawn: where a model has them, each
    title says so, and curves are not main effects.

    Parameters
    ----------
    effects : Effects
        The ``effects_`` of a model.
    names : sequence of str
        The fields to draw, in order.
    score : str
        What the contributions are called.
    column : int or None
        The class whose contributions are drawn, where there are several.
    sign : float
        -1 turns all contributions around.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each field.
    figure_ : matplotlib Figure
    """

    def __init__(
        self, effects: Effects, names: Sequence[str], score: str, *, column: int | None = None, sign: float = 1.0
    ) -> None:
        self.effects, self.names, self.score, self.column, self.sign = effects, tuple(names), score, column, sign

    @classmethod
    def from_estimator(
        cls, model: Any, features: Any = None, *, ax: Any = None, n_columns: int = 3, class_: Any = None
    ) -> Self:
        """Draw the effects of a fitted model.

        Parameters
        ----------
        model : DPTabularClassifier
        features : str, sequence of str or None
            The fields to draw, in order. None: all, the most important first.
        ax : matplotlib Axes, sequence of Axes or None
            Where to draw, one for each field. None: a new figure.
        n_columns : int
            How many pictures stand in a row of a new figure.
        class_ : label or None
            The class whose scores are drawn. None, for two classes: the second.
        """
        _require_effects(model)
        effects = model.effects_
        column, sign, shown = _class(model, class_)
        score = f"log-odds of {shown}" if column is None else f"score of {shown}"
        display = cls(effects, _chosen(effects, features), score, column=column, sign=sign)
        return display.plot(ax=ax, n_columns=n_columns)

    def plot(self, *, ax: Any = None, n_columns: int = 3) -> Self:
        """Draw the effects, and return the display."""
        self.axes_ = _axes(ax, len(self.names), n_columns)
        self.figure_ = self.axes_[0].figure
        for place, name in zip(self.axes_, self.names, strict=True):
            effect = self.effects[name]
            if len(effect.points):
                self._draw_curve(place, effect)
            else:
                self._draw_bars(place, effect)
            if self.effects.interactions is not None:
                place.set_title(f"{place.get_title()}\n{NOT_SHOWN}")
        return self

    def _of_class(self, values: Floats) -> Floats:
        return values if self.column is None else values[:, self.column]

    def _found(self, effect: Effect) -> tuple[Floats, Floats, Any, Any]:
        """Return contributions of the points and of the labels, and half the widths of their bands, or None."""
        curve, bars = (self.sign * self._of_class(values) for values in (effect.curve, effect.bars))
        if effect.curve_noise is None or effect.bars_noise is None:
            return curve, bars, None, None
        return curve, bars, BAND * self._of_class(effect.curve_noise), BAND * self._of_class(effect.bars_noise)

    def _draw_curve(self, ax: Any, effect: Effect) -> None:
        curve, bars, band, bars_band = self._found(effect)
        ax.axhline(0, color="0.85", linewidth=1, zorder=0)
        if band is not None:
            ax.fill_between(effect.points, curve - band, curve + band, alpha=0.25, linewidth=0)
        ax.plot(effect.points, curve)
        wide = float(np.ptp(effect.points)) or 1.0
        for k, label in enumerate(effect.labels):
            if effect.shares[k] > 0:
                x = 0.0 if label == "0" else effect.points[-1] + MARGIN * wide
                ax.errorbar(x, bars[k], None if bars_band is None else bars_band[k], fmt="o", color="C1", markersize=4)
                side = {"ha": "left"} if label == "0" else {"ha": "right"}
                ax.annotate(label, (x, bars[k]), (0, 5), textcoords="offset points", size="small", color="C1", **side)
        if effect.kind == "time":
            _date_ticks(ax)
        else:
            ax.locator_params(axis="x", nbins=4)
        ax.set(ylabel=self.score, title=effect.name)

    def _draw_bars(self, ax: Any, effect: Effect) -> None:
        _, bars, _, band = self._found(effect)
        shown = np.flatnonzero(effect.shares > 0)
        shown = shown[np.argsort(-(effect.shares * np.square(bars))[shown], kind="stable")]
        left_out, shown = shown[MOST_BARS:], shown[:MOST_BARS]
        shown = shown[np.argsort(bars[shown], kind="stable")]
        ax.axvline(0, color="0.85", linewidth=1, zorder=0)
        ax.barh(range(len(shown)), bars[shown], xerr=None if band is None else band[shown], ecolor="0.4", alpha=0.6)
        ax.set_yticks(range(len(shown)), [_short(effect.labels[k]) for k in shown])
        more = f" ({len(left_out)} more)" if len(left_out) else ""
        ax.set(xlabel=self.score, title=f"{effect.name}{more}")


def _require_effects(model: Any) -> None:
    if not hasattr(type(model), "effects_"):
        raise TypeError(
            f"{type(model).__name__} has no effects_: only DPTabularClassifier is a sum of curves. Give the last step "
            "of a pipeline, pipeline[-1], or the best estimator of a search, search.best_estimator_"
        )
    check_is_fitted(model)


def _date_ticks(ax: Any) -> None:
    dates: Any = import_module("matplotlib.dates")
    # 2 at the least: with 5, its default, no interval fits some spans, such as 32 months, and matplotlib warns
    locator = dates.AutoDateLocator(minticks=2, maxticks=6)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _chosen(effects: Effects, features: Any) -> tuple[str, ...]:
    if features is None:
        return tuple(effect.name for effect in effects.by_importance())
    names = (features,) if isinstance(features, str) else tuple(features)
    unknown = [name for name in names if name not in effects]
    if unknown or not names:
        raise ValueError(f"features={features!r} must be some of {', '.join(map(repr, effects))}")
    return names


def _class(model: Any, asked: Any) -> tuple[int | None, float, Any]:
    """Return the column of the contributions of a class, their sign, and the class."""
    classes = list(model.classes_)
    if asked is None and len(classes) > 2:
        raise ValueError(f"the model has {len(classes)} classes: give class_, one of {', '.join(map(str, classes))}")
    if asked is not None and asked not in classes:
        raise ValueError(f"class_={asked!r} must be one of {', '.join(map(str, classes))}")
    at = 1 if asked is None else classes.index(asked)
    if len(classes) > 2:
        return at, 1.0, classes[at]
    return None, 1.0 if at else -1.0, classes[at]


def _axes(ax: Any, count: int, n_columns: int) -> Any:
    """Return one pair of axes for each of so many pictures."""
    if ax is not None:
        axes = np.ravel(np.array(ax, dtype=object))
        if len(axes) != count:
            raise ValueError(f"ax has {len(axes)} axes for {count} fields: give one for each, or None")
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("EffectsDisplay draws with matplotlib: pip install 'dpsk[plot]'") from None
    require_number("n_columns", n_columns, 1, kind=Integral)
    n_columns = min(n_columns, count)
    n_lines = -(-count // n_columns)
    figure = pyplot.figure(figsize=(4.2 * n_columns, 3.0 * n_lines), layout="constrained")
    return np.array([figure.add_subplot(n_lines, n_columns, k + 1) for k in range(count)], dtype=object)
