"""What the checks of claims share: cells of methods, leads over others, and how they are put into words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .. import measured
from ..evidence import Gap, Verdict, at_least, differences, everywhere, somewhere
from ..methods import DATASETS, EPSILONS, kdd_name
from ..table import Folds

Checked = tuple[Verdict, str]
AGD = "DP-AGD, as published"
CELLS = [(dataset, epsilon) for dataset in DATASETS for epsilon in EPSILONS]
KDDCUP = "kddcup99"
IN_BATCHES = (AGD, "DP-AGD, ours", "PrivGene")
"""What Lee & Kifer ran on KDDCup99 with mini-batches."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, in short, and how it is checked."""

    paper: str
    text: str
    check: Callable[[], Checked]
    remark: str = ""
    """What is different here from there, where it may matter."""


def never(reason: str) -> Callable[[], Checked]:
    return lambda: (Verdict.UNTESTABLE, reason)


def at(name: str, dataset: str, epsilon: float, kind: int = 0, measure: str = "accuracy") -> Folds:
    """Return what was measured of a method; nothing where its budget buys nothing."""
    batches = dataset == KDDCUP and name in IN_BATCHES
    return measured.all_folds(measure).get((dataset, kdd_name(name, kind, batches), str(epsilon)), {})


def mean(folds: Folds) -> float:
    return Gap.of(folds.values()).mean


def over(name: str, other: str, dataset: str, epsilon: float, kind: int = 0) -> Gap:
    return Gap.between(at(name, dataset, epsilon, kind), at(other, dataset, epsilon, kind))


def over_all(name: str, others: Iterable[str], dataset: str, epsilon: float, kind: int = 0) -> dict[str, Gap]:
    """Return by how many points a method is ahead of every other that has results in this cell."""
    found = (other for other in others if other != name and at(other, dataset, epsilon, kind))
    return {other: over(name, other, dataset, epsilon, kind) for other in found}


def least(gaps: dict[str, Gap]) -> str:
    """Return the smallest lead, and over whom."""
    name = min(gaps, key=lambda other: gaps[other].mean)
    return f"{gaps[name]} over {name}"


def counted(verdicts: Iterable[Verdict], words: tuple[str, str, str] = ("ahead", "level", "behind")) -> str:
    """Return in how many cells a statement holds, is open and fails."""
    verdicts = list(verdicts)
    kinds = (Verdict.CONFIRMED, Verdict.UNDECIDED, Verdict.DENIED)
    return ", ".join(f"{word} in {verdicts.count(kind)}" for kind, word in zip(kinds, words, strict=True))


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    verdicts = list(verdicts)
    return at_least(len(verdicts), verdicts)


def most_of(verdicts: list[Verdict]) -> Verdict:
    return at_least(len(verdicts) // 2 + 1, verdicts)


def widest(values: dict[str, Folds]) -> str:
    """Return the largest difference between two values, and which they are."""
    order = sorted(values, key=lambda value: mean(values[value]))
    return f"{Gap.between(values[order[-1]], values[order[0]])} ({order[-1]} over {order[0]})"


def below(tables: dict[str, dict[str, Folds]], limit: float) -> Checked:
    """Return whether no two values of each of these differ by as much as the limit, and their largest differences."""
    verdict = everywhere(-(gap - limit) for values in tables.values() for gap in differences(values))
    return verdict, ", ".join(f"{widest(values)} at {where}" for where, values in tables.items())


def above(tables: dict[str, dict[str, Folds]], limit: float) -> Checked:
    """Return whether some two values of each of these differ by more than the limit, and their largest differences."""
    verdict = all_of(
        somewhere((gap - limit for gap in differences(values)), among=len(tables)) for values in tables.values()
    )
    return verdict, ", ".join(f"{widest(values)} at {where}" for where, values in tables.items())


def listed(gaps: dict[str, Gap]) -> str:
    return ", ".join(f"{gap} at {where}" for where, gap in gaps.items())
