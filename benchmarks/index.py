"""``results/README.md``: every experiment, how it is run, how often things were repeated, and on what."""

from __future__ import annotations

from collections.abc import Sequence

from . import measured
from .experiment import Experiment, write
from .experiments.settings import STEPS, STEPS_EPSILONS
from .methods import ADV
from .table import machines, markdown, per_repeat

__all__ = ["report"]


def section(one: Experiment) -> str:
    """Return what the index says of a figure or table of a paper."""
    text = one.note()
    lines = [f"## {one.title}", f"`python -m benchmarks run {one.name} --data DIR`", text[0].upper() + text[1:] + "."]
    lines += [
        f"![{one.title}]({file})" if file.endswith(".png") else f"Numbers: [{file}]({file})" for file in one.made()
    ]
    return "\n\n".join(lines)


def command(one: Experiment) -> str:
    return f"`run {one.name}`" + (f", {one.repeats} repeats" if (one.repeats or 0) > 1 else "")


def link(file: str) -> str:
    return f"[{file}]({file})" if file.endswith(".md") else f"`{file}`"


def steps() -> str:
    """Return which number of steps was best for SGD-Adv, which has one number for all epsilons."""
    texts = []
    for epsilon in STEPS_EPSILONS:
        cells = {n: measured.settings_folds()["SGD-Adv", "steps", str(n), str(epsilon)] for n in STEPS["SGD-Adv"]}
        scores = {n: per_repeat(folds).mean() for n, folds in cells.items()}
        best, own = max(scores, key=scores.__getitem__), ADV["steps"]
        texts.append(f"{best} at epsilon {epsilon:g} ({scores[best]:.2f} %; {own} steps: {scores[own]:.2f} %)")
    return ", ".join(texts)


def report(known: Sequence[Experiment]) -> None:
    """Write the index of these experiments."""
    groups: dict[str, list[str]] = {}
    for rows, machine in machines().items():
        groups.setdefault(machine, []).append(rows)
    objectives, scores = measured.all_cells("objective"), measured.all_cells()
    further = [(", ".join(map(link, one.made())), command(one)) for one in known if not one.note()]
    write(
        "README",
        steps=steps(),
        sections="\n\n".join(section(one) for one in known if one.note()),
        further=markdown(["file", "made by"], further),
        machines=markdown(["rows", "machine and versions"], ((", ".join(r), m) for m, r in groups.items())),
        constant=2 * (1 - scores["bank", "majority", ""].mean() / 100),
        ends=objectives["bank", "DP-AGD SVM", "1.6"].mean(),
        least=objectives["bank", "not private SVM, alpha 1e-3", ""].mean(),
    )
