"""Figures of accuracy against epsilon, settings and time, and the summary over all methods, from CSV files alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from . import accuracy, kddcup, settings
from .accuracy import standard_error
from .suite import RESULTS, Folds, by_fold, per_repeat

DATASETS = ("adult", "bank", "ipums_br")
# what a line is called, and the configurations that it stands for: logistic regression, linear SVM
METHODS = {
    "default": ("default", "default SVM"),
    "DP-AGD, as published": ("DP-AGD paper + laplace", "DP-AGD SVM paper + laplace"),
    "DP-AGD, ours": ("DP-AGD", "DP-AGD SVM"),
    "ObjPert 2011": ("objective perturbation 2011", "objective perturbation 2011 SVM"),
    "ObjPert 2012": ("objective perturbation 2012", "objective perturbation 2012 SVM"),
    "AMP 2019": ("AMP", "AMP SVM"),
    "PrivGene": ("PrivGene", "PrivGene SVM"),
    "SGD-Adv": ("SGD-Adv", "SGD-Adv SVM"),
    "SGD-MA": ("SGD-MA", "SGD-MA SVM"),
    "SGD-MA, all moments": ("SGD-MA, all moments", "SGD-MA SVM, all moments"),
    "DP-BLSGD, as published": ("line search paper", "line search SVM paper"),
    "DP-BLSGD, ours": ("line search", "line search SVM"),
    "DP-BLSGD-AC, ours": ("line search AC", "line search SVM AC"),
    "DP-BLGD, ours": ("line search all rows", "line search SVM all rows"),
    "DP-SGD": ("DP-SGD", "DP-SGD SVM"),
    "DP-Adam": ("DP-Adam", "DP-Adam SVM"),
    "objective perturbation, ours": ("objective perturbation", "objective perturbation SVM"),
    "output perturbation, ours": ("output perturbation", "output perturbation SVM"),
    "OutPert-GD 2017": ("output perturbation 2017, GD", "output perturbation 2017, GD SVM"),
    "permuted SGD 2017": ("output perturbation 2017, permuted SGD", "output perturbation 2017, permuted SGD SVM"),
    "OutPert-RSGD 2019": ("output perturbation 2019, RSGD", "output perturbation 2019, RSGD SVM"),
}
LEE_KIFER = (
    "default", "DP-AGD, as published", "DP-AGD, ours", "ObjPert 2011", "ObjPert 2012", "PrivGene", "SGD-Adv", "SGD-MA",
    "SGD-MA, all moments", "objective perturbation, ours", "OutPert-GD 2017",
)  # fmt: skip
CHEN_LEE = (
    "default", "DP-BLSGD, as published", "DP-BLSGD, ours", "DP-BLSGD-AC, ours", "DP-BLGD, ours", "DP-AGD, as published",
    "DP-SGD", "DP-Adam", "ObjPert 2011", "ObjPert 2012", "PrivGene", "objective perturbation, ours",
    "output perturbation, ours", "OutPert-GD 2017", "permuted SGD 2017", "OutPert-RSGD 2019",
)  # fmt: skip
KINDS = ("logistic regression", "linear SVM")
Cells = Mapping[tuple[str, ...], np.ndarray]


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


@cache
def all_folds(measure: str = "accuracy") -> Mapping[tuple[str, ...], Folds]:
    """Return what was measured by data set, configuration and epsilon (KDDCup99 included)."""
    own = [row | {"dataset": "kddcup99", "delta": "1e-12", "repeat": "0"} for row in kddcup.TABLE.rows()]
    if measure == "seconds":  # measured on KDDCup99 only
        return accuracy.folds_of(own, measure)
    return accuracy.folds_of([row for row in accuracy.read() if row["delta"] != "0.0"] + own, measure)


@cache
def all_cells(measure: str = "accuracy") -> Cells:
    """Return the same as means over the folds of every repeat."""
    return {cell: per_repeat(folds) for cell, folds in all_folds(measure).items()}


def curve(cells: Cells, dataset: str, configuration: str) -> tuple[list[float], list[np.ndarray]]:
    """Return the epsilons of one line, and what was measured there."""
    keys = [key for key in cells if key[:2] == (dataset, configuration) and key[2]]
    keys.sort(key=lambda key: float(key[2]))
    return [float(key[2]) for key in keys], [cells[key] for key in keys]


def save(figure, name: str) -> None:
    figure.savefig(RESULTS / f"{name}.png", dpi=80)


def legend_below(figure, columns: int = 5) -> None:
    handles = {label: h for axes in figure.axes for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=9)


def epsilon_axis(axes) -> None:
    axes.set(xscale="log")
    axes.set_xticks(accuracy.EPSILONS, [f"{e:g}" for e in accuracy.EPSILONS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def lines_against_epsilon(axes, cells: Cells, dataset: str, names: Iterable[str], kind: int) -> None:
    for name in names:
        epsilons, values = curve(cells, dataset, METHODS[name][kind])
        if epsilons:
            errors = [np.nan_to_num(standard_error(v)) for v in values]
            axes.errorbar(epsilons, [v.mean() for v in values], errors, label=name, **style(name))


def against_epsilon(file: str, names: Iterable[str], kind: int) -> None:
    """Draw accuracy (top) and objective (bottom) against epsilon on three data sets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 9.5), layout="constrained")
    top, bottom = figure.subplots(2, len(DATASETS), sharex=True)
    scores, objectives = all_cells(), all_cells("objective")
    suffix = " SVM" if kind else ""
    for dataset, above, below in zip(DATASETS, top, bottom, strict=True):
        lines_against_epsilon(above, scores, dataset, names, kind)
        share = scores[dataset, "majority", ""].mean() / 100
        goal = scores[dataset, f"not private{suffix}", ""].mean()
        above.axhline(goal, color="black", ls="--", lw=1, label="not private / its objective")
        above.axhline(100 * share, color="black", ls=":", lw=1, label="majority / best constant")
        above.set_title(f"{dataset}: {KINDS[kind]}")
        shown = [v.mean() for name in names for v in curve(scores, dataset, METHODS[name][kind])[1]]
        low = max(min(shown), 100 * share - 2)  # what is far below the majority is not of interest
        above.set_ylim(low - 0.05 * (goal - low), goal + 0.05 * (goal - low))
        lines_against_epsilon(below, objectives, dataset, names, kind)
        best = objectives[dataset, f"not private{suffix}, alpha 1e-3", ""].mean()
        constant = 2 * min(share, 1 - share) if kind else -share * np.log(share) - (1 - share) * np.log(1 - share)
        below.axhline(best, color="black", ls="--", lw=1)
        below.axhline(constant, color="black", ls=":", lw=1)
        below.set(yscale="log", ylim=(0.97 * best, 5 * constant))
        ticks = [
            t for t in (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.5, 2, 3) if 0.97 * best < t < 5 * constant
        ]
        below.set_yticks(ticks, [f"{t:g}" for t in ticks])
        below.set_xlabel("epsilon (delta = 1e-8)")
        for axes in (above, below):
            epsilon_axis(axes)
    top[0].set_ylabel("accuracy, %")
    bottom[0].set_ylabel("mean loss + alpha/2 |w|², alpha = 1e-3")
    legend_below(figure)
    save(figure, file)


def lee_kifer_1() -> None:
    """Draw what the settings of DP-AGD do: accuracy and objective, as published and ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 9), layout="constrained")
    grid = figure.subplots(4, len(settings.SETTINGS), sharey="row", sharex="col")
    titles = {"splits": "(a) splits", "gamma": "(b) gamma", "gradient_clip": "(c) C_grad", "loss_clip": "(d) C_obj"}
    ways = [(v, measure) for measure in ("accuracy", "objective") for v in ("as published", "ours")]
    for (variant, measure), row in zip(ways, grid, strict=True):
        default = all_cells(measure)
        found = settings_folds(measure)
        for axes, (parameter, values) in zip(row, settings.SETTINGS.items(), strict=True):
            for epsilon, color in zip(settings.EPSILONS, ("C3", "C0", "C2"), strict=True):
                keys = {v: (variant, parameter, str(v), str(epsilon)) for v in values}
                points = {v: per_repeat(found[key]) for v, key in keys.items() if key in found}
                average = [p.mean() for p in points.values()]
                errors = [np.nan_to_num(standard_error(p)) for p in points.values()]
                label = f"epsilon = {epsilon}"
                axes.errorbar(list(points), average, errors, color=color, marker="o", ms=4, label=label)
                level = default["adult", "default", str(epsilon)].mean()
                axes.axhline(level, color=color, ls="--", lw=1, label=f"default, epsilon = {epsilon}")
            if parameter != "gamma":
                axes.set_xscale("log")
                axes.set_xticks(values, [f"{v:g}" for v in values])
                axes.minorticks_off()
            axes.grid(alpha=0.3)
        row[0].set_ylabel(f"{measure}{', %' if measure == 'accuracy' else ''}\n{variant}")
    for axes, parameter in zip(grid[0], settings.SETTINGS, strict=True):
        axes.set_title(titles[parameter])
    for row in grid[2:]:
        row[0].set(yscale="log", ylim=(0.34, 1.4))
        row[0].set_yticks([0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.3], ["0.35", "0.4", "0.5", "0.6", "0.8", "1", "1.3"])
        row[0].minorticks_off()
    legend_below(figure, 6)
    save(figure, "lee_kifer_1")


@cache
def settings_folds(measure: str = "accuracy") -> Mapping[tuple[str, ...], Folds]:
    """Return what the settings of DP-AGD do, by variant, parameter, value and epsilon."""
    return by_fold(settings.TABLE.rows(), settings.KEY[:4], measure)


# lines of the picture of KDDCup99 and their configurations: all rows are drawn through, batches dashed
KDD_LINES = {
    "default": "default", "DP-AGD, as published": "DP-AGD paper + laplace", "DP-AGD, ours": "DP-AGD",
    "objective perturbation, ours": "objective perturbation", "DP-SGD": "DP-SGD", "SGD-Adv": "SGD-Adv",
    "SGD-MA": "SGD-MA", "PrivGene": "PrivGene",
}  # fmt: skip


def kdd_name(name: str, kind: int, batches: bool = False) -> str:
    """Return the configuration of a line on KDDCup99."""
    return METHODS[name][kind] + (", batches" if batches else "")


def lee_kifer_4() -> None:
    """Draw error and seconds on KDDCup99, with all rows and with batches of 40,000; write the table."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True)
    lines = ["# KDDCup99, all rows and mini-batches", ""]
    lines += [
        "Lee & Kifer (2018), Figure 4, on the 10 % file: 494,021 rows x 118, delta = 1e-12. Accuracy in percent and",
        "seconds of processor time of a fit in one thread (the machine was shared), means over folds of one 5-fold",
        "cross-validation. `batches` are of 40,000 rows, each release paid as one on all rows (no amplification is",
        "claimed); DP-SGD draws Poisson batches of a tenth, SGD-Adv and SGD-MA of the square root of the rows. Empty:",
        "the budget buys nothing (SGD-MA has no promise below epsilon = log(1/delta)/32 = 0.863). Not private is",
        "scikit-learn's model with C = 1 on the columns as they are; the default, which standardises them, passes",
        "it from epsilon = 0.2 on.",
    ]
    for kind, column in enumerate(grid.T):
        for measure, axes in zip(("accuracy", "seconds"), column, strict=True):
            cells = all_cells(measure)
            for name in KDD_LINES:
                for batches in (False, True):
                    epsilons, values = curve(cells, "kddcup99", kdd_name(name, kind, batches))
                    if epsilons:
                        look = style(name) | ({"ls": ":", "mfc": "none"} if batches else {"ls": "-"})
                        label = name + (", batches of 40,000" if batches else "")
                        drawn = [v.mean() if measure == "seconds" else 100 - v.mean() for v in values]
                        axes.plot(epsilons, drawn, label=label, **look)
            epsilon_axis(axes)
        goal = all_cells()["kddcup99", f"not private{' SVM' if kind else ''}", ""].mean()
        majority = all_cells()["kddcup99", "majority", ""].mean()
        column[0].axhline(100 - goal, color="black", ls="--", lw=1, label="not private")
        column[0].axhline(100 - majority, color="black", ls=":", lw=1, label="majority")
        column[0].set(title=KINDS[kind], yscale="log")
        ticks = (0.2, 0.5, 1, 2, 5, 10, 20)
        column[0].set_yticks(ticks, [f"{t:g}" for t in ticks])
        column[1].set(yscale="log", xlabel="epsilon (delta = 1e-12)")
        ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
        column[1].set_yticks(ticks, [f"{t:g}" for t in ticks])
        lines += ["", f"## {KINDS[kind]}", "", f"Not private {goal:.2f}, majority {majority:.2f}.", ""]
        lines += kdd_table(kind)
    grid[0, 0].set_ylabel("error (100 - accuracy), %")
    grid[1, 0].set_ylabel("seconds of processor time")
    legend_below(figure, 4)
    save(figure, "lee_kifer_4")
    (RESULTS / "kddcup99.md").write_text("\n".join(lines) + "\n")


def kdd_table(kind: int) -> list[str]:
    """Return accuracies and seconds of every configuration on KDDCup99."""
    scores, seconds = all_cells(), all_cells("seconds")
    header = " | ".join(f"{e:g}" for e in accuracy.EPSILONS)
    lines = [f"| method | folds | {header} | seconds |", "|" + "---|" * (len(accuracy.EPSILONS) + 3)]
    folds: dict[str, set[str]] = {}
    for row in kddcup.TABLE.rows():
        folds.setdefault(row["configuration"], set()).add(row["fold"])
    for configuration in kddcup.MODELS:
        if ("SVM" in configuration) != bool(kind) or configuration not in folds:
            continue
        found = [scores.get(("kddcup99", configuration, str(e))) for e in accuracy.EPSILONS]
        keys = [("kddcup99", configuration, str(e)) for e in accuracy.EPSILONS]
        times = [seconds[key].mean() for key in keys if key in seconds]
        texts = ["" if v is None else f"{v.mean():.2f}" for v in found]
        took = f"{min(times):.1f} to {max(times):.1f}" if times else ""
        lines.append(f"| {configuration} | {len(folds[configuration])} | {' | '.join(texts)} | {took} |")
    return lines
