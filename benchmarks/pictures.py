"""What pictures share: how a method is drawn, axes of epsilon, and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from .methods import EPSILONS, METHODS
from .table import standard_error

Cells = Mapping[tuple[str, ...], np.ndarray]

__all__ = ["Cells", "curve", "epsilon_axis", "figure", "legend_below", "mean_line", "style", "ticks"]


def figure(width: float, height: float):
    """Return an empty picture; only who draws needs matplotlib."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@cache
def style(name: str) -> dict[str, object]:
    """Return how a method is drawn, the same in every picture."""
    from matplotlib import colormaps

    if name == "default":
        return {"color": "black", "marker": "o", "lw": 2.2, "ms": 5, "zorder": 5}
    index = list(METHODS).index(name)
    markers, lines = "sv^D<>Px*ph", ("-", "--", "-.")
    color = f"C{index % 10}" if index <= 10 else colormaps["tab20"](2 * (index % 10) + 1)  # the pale ones come second
    return {
        "color": color, "marker": markers[index % len(markers)], "ls": lines[index % 3], "lw": 1.2, "ms": 4
    }  # fmt: skip


def curve(cells: Cells, dataset: str, configuration: str) -> tuple[list[float], list[np.ndarray]]:
    """Return the epsilons of one line, and what was measured there."""
    keys = [key for key in cells if key[:2] == (dataset, configuration) and key[2]]
    keys.sort(key=lambda key: float(key[2]))
    return [float(key[2]) for key in keys], [cells[key] for key in keys]


def mean_line(axes, x: Iterable, values: Iterable[np.ndarray], **look) -> None:
    """Draw means over repeats, with their standard errors where there are any."""
    values = list(values)
    errors = [np.nan_to_num(standard_error(v)) for v in values]
    axes.errorbar(list(x), [v.mean() for v in values], errors, **look)


def ticks(axes, x: Iterable[float] = (), y: Iterable[float] = ()) -> None:
    """Put ticks, and no others, at these values."""
    for values, put in ((list(x), axes.set_xticks), (list(y), axes.set_yticks)):
        if values:
            put(values, [f"{value:g}" for value in values])


def epsilon_axis(axes) -> None:
    axes.set(xscale="log")
    ticks(axes, EPSILONS)
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def legend_below(figure, columns: int = 5) -> None:
    handles = {label: h for axes in figure.axes for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=9)
