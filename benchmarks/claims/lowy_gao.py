"""What Lowy & Razaviyayn (2021) and Gao & Wright (2023) say, each statement with its check."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from .. import measured
from ..evidence import Gap, NotMeasured, Verdict, everywhere
from ..experiments import output_risk
from ..table import Folds
from .cells import Checked, Claim, all_of, mean

LR, GW = "Lowy & Razaviyayn (2021)", "Gao & Wright (2023)"
WALL_CLOCK = "seconds on the wall, as there; five seeds"
START = "all start at 0, there at random; noisy Hessians are ours, without a factor of the dimension"


def bounds_hold() -> Checked:
    lines = [line for line in measured.bound_lines() if line.applies]
    ratios = [line.excess / line.bound for line in lines]
    above_it = sum(ratio > 1 for ratio in ratios)
    left = [Gap(line.bound - line.excess, line.error, line.repeats) for line in lines]
    clear = sum(everywhere([gap]) is Verdict.CONFIRMED for gap in left)
    return everywhere(left), (
        f"{above_it} of {len(lines)} cells are above their bound, {clear} are below it beyond chance; the largest "
        f"ratio is {max(ratios):.2f}"
    )


def rate_of_square() -> Checked:
    slopes = {}
    for problem, risk, delta, over_what, same in output_risk.sweeps(measured.bound_lines()):
        if problem.name == "smooth, strongly convex" and risk == "empirical" and delta == 0:
            x, y, errors = (np.array([getattr(line, f) for line in same]) for f in (over_what, "excess", "error"))
            slopes[over_what] = Gap(*output_risk.slope(x, y, errors), min(line.repeats for line in same))
    sides = [side for gap in slopes.values() for side in (gap - -2, -(gap - -2))]
    return everywhere(gap - -0.1 for gap in sides), "slopes in log-log (within 0.1): " + ", ".join(
        f"{gap} over {over_what}" for over_what, gap in slopes.items()
    )


def second(method: str, measure: str) -> dict[tuple[str, ...], Folds]:
    """Return a column of the tables of second-order descent, by data set, objective, tolerance and epsilon."""
    rows = measured.second_order_rows().where(method=method)
    return rows.folds(("dataset", "objective", "eps_g", "epsilon"), measure, over=("seed",))


def ended(cell: tuple[str, ...], *methods: str) -> bool:
    """Return whether all runs of these came to the stop."""
    return all(min(second(method, "reached").get(cell, {(): 0.0}).values()) == 1 for method in methods)


def loose(epsilon: float) -> tuple[str, ...]:
    return "covtype", "nonconvex", "0.06", str(epsilon)


def logarithms(folds: Folds) -> Folds:
    return {fold: math.log(value) for fold, value in folds.items()}


def times_as_long(slower: str, faster: str, cells: Iterable[tuple[str, ...]]) -> tuple[list[Gap], str]:
    """Return the logarithm of how many times longer one method takes, cell by cell."""
    seconds = {method: second(method, "seconds") for method in (slower, faster)}
    gaps = [Gap.between(*(logarithms(seconds[method][cell]) for method in (slower, faster))) for cell in cells]
    if not gaps:
        raise NotMeasured(f"{slower} and {faster} nowhere come to an end both")
    ratios = [math.exp(gap.mean) for gap in gaps]
    clear = sum(everywhere([gap], among=len(gaps)) is Verdict.CONFIRMED for gap in gaps)
    return gaps, (
        f"{slower} takes {min(ratios):.1f} to {max(ratios):.1f} times as long as {faster} (geometric means over "
        f"seeds; median {np.median(ratios):.1f}), longer beyond chance in {clear} of {len(gaps)} cells"
    )


def short_step_wins() -> Checked:
    gaps, texts = [], []
    for epsilon in (0.6, 1.0):
        cell = loose(epsilon)
        took, losses = (Gap.between(second("TR", m)[cell], second("OPT", m)[cell]) for m in ("seconds", "loss"))
        gaps += [took, losses]
        texts.append(f"at {epsilon:g} {took} s and {losses.mean:+.4f} ± {losses.half_width():.4f}")
    return everywhere(gaps), "Covertype, non-convex; time and loss of TR minus those of OPT: " + "; ".join(texts)


def short_step_may_fail() -> Checked:
    cell = loose(0.2)
    lower = Gap.between(second("TR", "loss")[cell], second("OPT", "loss")[cell])
    share = mean(second("OPT", "reached")[cell])
    fails = Verdict.CONFIRMED if share < 1 else Verdict.UNDECIDED  # it could in another run
    return all_of([fails, everywhere([lower])]), (
        f"Covertype, non-convex; {100 * share:.0f} % of the runs of OPT end; loss of TR minus that of OPT "
        f"{lower.mean:+.4f} ± {lower.half_width():.4f}"
    )


def two_phases_always() -> Checked:
    cells = second("2OPT-LS", "reached")
    good = sum(ended(cell, "2OPT-LS") for cell in cells)
    return Verdict.of(good == len(cells)), f"all runs of 2OPT-LS end in {good} of {len(cells)} cells"


def both_end() -> list[tuple[str, ...]]:
    return [cell for cell in second("TR", "reached") if ended(cell, "TR", "2OPT-LS")]


def faster_than_regions() -> Checked:
    gaps, text = times_as_long("TR", "2OPT-LS", both_end())
    return everywhere(gaps), f"where both end, {text}"


def fewer_iterations() -> Checked:
    bought = {method: second(method, "gradients") for method in ("TR", "2OPT-LS")}
    gaps = [Gap.between(bought["TR"][cell], bought["2OPT-LS"][cell]) for cell in both_end()]
    fewer = sum(gap.mean > 0 for gap in gaps)
    text = f"2OPT-LS buys fewer gradients (one per iteration) in {fewer} of {len(gaps)} cells where both end"
    return everywhere(gaps), text


def few_hessians() -> Checked:
    ours = [mean(x) for m in ("OPT", "OPT-LS", "2OPT", "2OPT-LS") for x in second(m, "hessians").values()]
    regions = [mean(x) for x in second("TR", "hessians").values()]
    return Verdict.of(max(ours) < min(regions)), (
        f"ours at most {max(ours):.1f} in a cell, TR {min(regions):.1f} to {max(regions):.1f}"
    )


def faster(method: str, other: str) -> Checked:
    """Return whether a method is faster in the cells of the paper's main tables."""
    cells = [cell for cell in second("OPT", "seconds") if cell[:2] == loose(0.2)[:2]]
    gaps, text = times_as_long(other, method, cells)
    return everywhere(gaps), f"Covertype, non-convex: {text}"


def gradient_descent_is_slow() -> Checked:
    cells = second("GD", "seconds")
    took = [mean(folds) for cell, folds in cells.items() if ended(cell, "GD")]
    return Verdict.UNTESTABLE, (
        f"the paper had no result with the parameters of DP-GD's own paper; with our accounting it ends in {len(took)} "
        f"of {len(cells)} cells on IJCNN, in {min(took):.1f} to {max(took):.1f} s"
    )


CLAIMS = (
    Claim(LR, "Tables 3-6: the stated bounds hold", bounds_hold),
    Claim(LR, "Cor. 2.2: smooth and strongly convex, excess risk goes with 1/(epsilon n)² (d fixed)", rate_of_square),
    Claim(GW, "§4: loose, epsilon .6 and 1: OPT is faster than TR and ends lower", short_step_wins, START),
    Claim(GW, "§4: loose, epsilon .2: OPT may not end, and is lower than TR all the same", short_step_may_fail, START),
    Claim(GW, "§4: 2OPT-LS does well at all budgets and in both settings", two_phases_always),
    Claim(GW, "§5: 2OPT-LS consistently outperforms TR: it is faster", faster_than_regions, WALL_CLOCK),
    Claim(GW, "§1: fewer iterations than TR", fewer_iterations),
    Claim(GW, "§4: line search improves on the short step: it is faster", partial(faster, "OPT-LS", "OPT"), WALL_CLOCK),
    Claim(GW, "§4: mini-batches improve on the short step: faster", partial(faster, "OPT-B", "OPT"), WALL_CLOCK),
    Claim(GW, "§4: line search does so especially with two phases", partial(faster, "2OPT-LS", "OPT-LS"), WALL_CLOCK),
    Claim(GW, "§4: mini-batches do so especially with two phases", partial(faster, "2OPT-B", "OPT-B"), WALL_CLOCK),
    Claim(GW, "App. E: very few noisy Hessians, TR one in every iteration", few_hessians),
    Claim(GW, "§4, note: DP-GD gives no practical results", gradient_descent_is_slow),
)  # fmt: skip
