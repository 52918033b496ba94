"""Excess risk of output perturbation where the minimiser is known, beside the bounds of Lowy & Razaviyayn (2021).

What is measured are fits of the two estimators with replaced rows as neighbours, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from dpsk import DPLinearSVC, DPLogisticRegression, OutputPerturbationLogisticRegression, OutputPerturbationSVC

from .. import pictures
from ..experiment import fits, save, write
from ..folds import fitted
from ..inside import gaussian_mu, strength
from ..known_risks import LIPSCHITZ, MU, PROBLEMS, RADIUS, Population, Problem, part
from ..table import Table, markdown, standard_error

DELTAS, RISKS = (0.0, 1e-6), ("empirical", "population")
D, N, EPSILON = 5, 4000, 1.0  # where the sweeps over n and over epsilon cross
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
DIMENSIONS = (1, 2, 5, 10, 20)
REPEATS = 40  # with the hinge; more with the other loss
DRAWS = 20_000  # of simulated noise
BY_NAME = {problem.name: problem for problem in PROBLEMS}


def model(problem: Problem, risk: str, algorithm: str, *cell):
    """Return the estimator: as it is set up with the R of the theorems ("ours"), or as the paper has it.

    The paper's lambda has the noise of replaced rows where ours has twice that (for rows left out, ours is the
    paper's); it projects where it assumes no smoothness, and ours wherever R is given.
    """
    *_, epsilon, delta = cell
    kind = OutputPerturbationLogisticRegression if problem.smooth else OutputPerturbationSVC
    settings = {} if problem.smooth else {"loss": "hinge"}
    settings |= {"gradient_clip": LIPSCHITZ, "adjacency": "replace", "fit_intercept": False, "target": risk}
    settings["radius"] = radius(problem, algorithm)
    if algorithm == "paper":
        settings["noise"] = "paper"
    if problem.strongly or algorithm == "paper":
        settings["alpha"] = penalty(problem, risk, algorithm, *cell)
    return kind(epsilon, delta, **settings)


def radius(problem: Problem, algorithm: str) -> float | None:
    """Return what weights are projected to."""
    return None if problem.smooth and (problem.strongly or algorithm == "paper") else RADIUS


def penalty(problem: Problem, risk: str, algorithm: str, d: int, n: int, epsilon: float, delta: float) -> float:
    """Return mu, or the lambda of the theorems."""
    if problem.strongly:
        return MU
    a = part(d, n, epsilon, delta)
    if algorithm == "ours":  # what alpha="auto" takes
        a = 2 * (a if delta == 0 else math.sqrt(2 * d) / (gaussian_mu(epsilon, delta) * n))
    return strength(LIPSCHITZ, problem.beta, RADIUS, a, n if risk == "population" else None)


@lru_cache(maxsize=2)
def excesses(problem: Problem, algorithm: str, d: int, n: int, epsilon: float, delta: float, repeats: int):
    """Return the excess risks with noise and without, by risk. Every repeat has its own sample and its own noise."""
    population, index, cell = Population(d), PROBLEMS.index(problem), (d, n, epsilon, delta)
    noisy: dict[str, list[float]] = {risk: [] for risk in RISKS}
    noiseless: dict[str, list[float]] = {risk: [] for risk in RISKS}
    for repeat in range(repeats):
        # cells must not share noise, or slopes would look better than they are
        rng = np.random.default_rng([index, algorithm == "paper", d, n, round(10 * epsilon), delta > 0, repeat])
        X, y, shares = population.sample(n, rng)
        for shares_of in (shares, population.shares):
            if np.linalg.norm(problem.minimiser(shares_of)) > RADIUS:
                raise ValueError(f"the minimiser of {problem.name} at n={n}, repeat {repeat} is beyond R={RADIUS}")
        for risk, shares_of in (("empirical", shares), ("population", population.shares)):
            if risk == "empirical" or not problem.strongly:  # a given penalty serves both risks
                estimator = model(problem, risk, algorithm, *cell).set_params(random_state=int(rng.integers(2**31)))
                u = estimator.fit(X, y).coef_.ravel() @ population.axes.T
            least = problem.risk(shares_of, problem.minimiser(shares_of))
            without = problem.minimiser(shares, penalty(problem, risk, algorithm, *cell))
            for values, at in ((noisy, u), (noiseless, without)):
                excess = problem.risk(shares_of, at) - least
                if excess < -1e-12:
                    raise AssertionError(f"{problem.name}: below its minimum by {-excess}")
                values[risk].append(excess)
    return noisy, noiseless


def measure(folder: Path | None, name: str, risk: str, algorithm: str, d, delta, n, epsilon, repeats) -> list[str]:
    """Return mean excess, its standard error, the mean without noise, and the bound."""
    problem = BY_NAME[name]
    noisy, noiseless = (found[risk] for found in excesses(problem, algorithm, d, n, epsilon, delta, repeats))
    bound = problem.bound(risk, d, n, epsilon, delta)
    return [f"{x:.6g}" for x in (np.mean(noisy), standard_error(np.array(noisy)), np.mean(noiseless), bound)]


def measure_default(folder: Path | None, name: str, n: int, epsilon: float, repeat: int) -> tuple[str, ...]:
    """Return the excess risks, empirical and population's, of the default estimator at the larger delta."""
    problem, population = BY_NAME[name], Population(D)
    rng = np.random.default_rng([PROBLEMS.index(problem), 2, n, round(10 * epsilon), repeat])
    X, y, shares = population.sample(n, rng)
    settings = {"bounds": (-1, 1), "adjacency": "replace", "fit_intercept": False}
    if problem.strongly:
        settings["alpha"] = MU
    kind = DPLogisticRegression if problem.smooth else DPLinearSVC
    estimator = kind(epsilon, DELTAS[1], random_state=int(rng.integers(2**31)), **settings)
    u = fitted(estimator, X, y)[0].coef_.ravel() @ population.axes.T
    risks = (problem.risk(s, u) - problem.risk(s, problem.minimiser(s)) for s in (shares, population.shares))
    return tuple(f"{excess:.6g}" for excess in risks)


KEY = ("problem", "risk", "algorithm", "d", "delta", "n", "epsilon", "repeats")
TABLE = Table("output_risk", KEY, ("excess", "error", "noiseless", "bound"), measure)
DEFAULT = Table("output_risk_default", ("problem", "n", "epsilon", "repeat"), RISKS, measure_default)


def keys(repeats: int = REPEATS) -> Iterator[tuple]:
    for problem in PROBLEMS:
        cells = {("ours", D, n, EPSILON) for n in problem.sizes} | {("ours", D, N, epsilon) for epsilon in EPSILONS}
        cells |= {("paper", D, n, EPSILON) for n in (problem.sizes[0], N, problem.sizes[-1])}
        if problem.strongly and problem.smooth:
            cells |= {("ours", d, N, EPSILON) for d in DIMENSIONS}
        for delta in DELTAS:
            for algorithm, d, n, epsilon in sorted(cells):
                often = repeats * ((30 if d == 1 else 3) if problem.smooth else 1)  # in one dimension chance is largest
                yield from ((problem.name, risk, algorithm, d, delta, n, epsilon, often) for risk in RISKS)


def default_keys(repeats: int) -> Iterable[tuple]:
    cells = [(p.name, n, EPSILON) for p in PROBLEMS for n in p.sizes]
    cells += [(p.name, N, epsilon) for p in PROBLEMS for epsilon in EPSILONS]
    return ((*cell, repeat) for repeat in range(repeats) for cell in cells)


@dataclass
class Line:
    """One line of the CSV file."""

    problem: Problem
    risk: str
    algorithm: str
    d: int
    delta: float
    n: int
    epsilon: float
    repeats: int
    excess: float
    error: float
    noiseless: float
    bound: float

    @property
    def applies(self) -> bool:
        return self.problem.applies(self.d, self.n, self.epsilon, self.delta)

    @cached_property
    def simulated(self) -> float:
        """The mean excess at the minimiser of the population plus noise of NumPy's, the library apart."""
        shares, rng = Population(self.d).shares, np.random.default_rng(0)
        fitted = penalty(self.problem, self.risk, self.algorithm, self.d, self.n, self.epsilon, self.delta)
        noise = rng.normal(size=(DRAWS, self.d)) * (2 * LIPSCHITZ / (fitted * self.n))
        if self.delta == 0:
            noise /= np.linalg.norm(noise, axis=1, keepdims=True) * self.epsilon
            noise *= rng.gamma(self.d, 2 * LIPSCHITZ / (fitted * self.n), (DRAWS, 1))
        else:
            noise /= gaussian_mu(self.epsilon, self.delta)
        u = self.problem.minimiser(shares, fitted) + noise
        if (limit := radius(self.problem, self.algorithm)) is not None:
            u *= np.minimum(1, limit / np.linalg.norm(u, axis=1, keepdims=True))
        return float((self.problem.risk(shares, u) - self.problem.risk(shares, self.problem.minimiser(shares))).mean())


def read() -> list[Line]:
    kinds = (BY_NAME.__getitem__, str, str, int, float, int, float, int, float, float, float, float)
    return [Line(*(kind(row[f]) for kind, f in zip(kinds, TABLE.fields, strict=True))) for row in TABLE.rows()]


def sweeps(lines: list[Line]) -> Iterator[tuple[Problem, str, float, str, list[Line]]]:
    """Yield the lines over n at epsilon = 1, and those over epsilon, of each problem, risk and delta."""
    ours = [line for line in lines if line.algorithm == "ours" and line.d == D]
    for problem in PROBLEMS:
        for risk in RISKS:
            for delta in DELTAS:
                same = [x for x in ours if (x.problem, x.risk, x.delta) == (problem, risk, delta)]
                over_n = [x for x in same if x.epsilon == EPSILON]
                over_epsilon = [x for x in same if x.n == N and x.epsilon in EPSILONS]
                yield problem, risk, delta, "n", sorted(over_n, key=lambda x: x.n)
                yield problem, risk, delta, "epsilon", sorted(over_epsilon, key=lambda x: x.epsilon)


def columns(lines: list[Line], *fields: str) -> list[np.ndarray]:
    return [np.array([getattr(line, field) for line in lines], dtype=float) for field in fields]


def slope(x: np.ndarray, y: np.ndarray, error: np.ndarray | float = 0.0) -> tuple[float, float]:
    """Return the slope of log y over log x by least squares, and its standard error from those of y.

    Points weigh the same: the standard error of a skewed mean is small where the mean is, by chance.
    """
    across = np.log(x) - np.log(x).mean()
    coefficients = across / (across**2).sum()
    return float(coefficients @ np.log(y)), float(np.linalg.norm(coefficients * error / y))


def repeats_of(lines: list[Line]) -> dict[str, int]:
    """Return how often each kind of cell was repeated."""
    often = {line.problem.loss: line.repeats for line in lines if line.d == D}
    return {**often, "one_dimension": max(line.repeats for line in lines if line.d == 1)}


def note() -> str:
    often = repeats_of(read())
    about = f"means over {often['hinge']} (hinge) and {often['logistic']} (logistic; {often['one_dimension']:,} in one "
    about += "dimension) repeats; the paper has no experiments"
    return f"{about}. {fits(DEFAULT.rows(), '', DEFAULT.key[:3])}"


def report() -> None:
    lines = read()
    above = [line for line in lines if line.applies and line.excess > line.bound]
    applying = sum(line.applies for line in lines)
    text = f"{len(above)} of the {applying} cells where a bound applies (of {len(lines)} measured) are above it."
    write(
        "output_risk",
        **repeats_of(lines),
        default=len(DEFAULT.rows().by("repeat")),
        exceeded="\n".join([text, *(f"- {line}" for line in above)]),
        slopes=slopes(lines),
        dimensions=dimensions(lines),
        paper=paper(lines),
        cells=cells(lines),
        n=N,
        d=D,
        epsilon=EPSILON,
    )
    draw(lines)


def slopes(lines: list[Line]) -> str:
    """Return the table of slopes in log-log."""
    rows = []
    for problem, risk, delta, over, same in sweeps(lines):
        x, excess, error, bound, noiseless = columns(same, over, "excess", "error", "bound", "noiseless")
        (found, uncertain), of_bound = slope(x, excess, error), slope(x, bound)[0]
        ratio, left = excess / bound, 100 * noiseless / excess
        simulated = around = ""
        if risk == "empirical":  # the other one has sampling in it
            (values,) = columns(same, "simulated")
            simulated = f"{slope(x, values)[0]:.2f}"
            around = f"{(excess / values).min():.2f} to {(excess / values).max():.2f}"
        rows.append([
            problem.name, risk, f"{delta:g}", over, f"{found:.2f} ± {uncertain:.2f}", f"{of_bound:.2f}", simulated,
            f"{abs(left[0]):.0f}, {abs(left[-1]):.0f}", around, f"{ratio.min():.2g} to {ratio.max():.2g}",
        ])  # fmt: skip
    header = ["class", "risk", "delta", "over", "measured", "bound", "simulated"]
    return markdown([*header, "without noise, %", "measured/simulated", "measured/bound"], rows)


def excess_of(line: Line) -> str:
    return f"{line.excess:.3g} ± {line.error:.1g}"


def dimensions(lines: list[Line]) -> str:
    """Return the table over d, where the bound is nearest."""
    same = [x for x in lines if (x.problem, x.risk, x.algorithm) == (PROBLEMS[0], "empirical", "ours")]
    rows = [
        [
            x.d, f"{x.delta:g}", excess_of(x), f"{x.simulated:.3g}",
            f"{x.excess / x.simulated:.2f} ± {x.error / x.simulated:.2f}", f"{x.bound:.3g}",
            f"{x.excess / x.bound:.2g}",
        ]
        for x in sorted((x for x in same if (x.n, x.epsilon) == (N, EPSILON)), key=lambda x: (x.delta, x.d))
    ]  # fmt: skip
    return markdown(["d", "delta", "excess", "simulated", "excess/simulated", "bound", "excess/bound"], rows)


def paper(lines: list[Line]) -> str:
    """Return the table of the paper's own algorithm beside ours."""
    ours = {(x.problem, x.risk, x.d, x.delta, x.n, x.epsilon): x for x in lines if x.algorithm == "ours"}
    pairs = [(x, ours[x.problem, x.risk, x.d, x.delta, x.n, x.epsilon]) for x in lines if x.algorithm == "paper"]
    rows = (
        [x.problem.name, x.risk, f"{x.delta:g}", x.n, excess_of(x), excess_of(y), f"{x.bound:.3g}",
         f"{x.excess / x.bound:.2g}"]
        for x, y in pairs
    )  # fmt: skip
    header = ["class", "risk", "delta", "n", "the paper's excess", "ours", "bound", "the paper's/bound"]
    return markdown(header, rows)


def cells(lines: list[Line]) -> str:
    """Return the table of all cells."""
    rows = (
        [x.problem.name, x.risk, f"{x.delta:g}", x.n, f"{x.epsilon:g}", excess_of(x), f"{x.noiseless:.3g}",
         f"{x.bound:.3g}", f"{x.excess / x.bound:.2g}", "yes" if x.applies else "no"]
        for *_, same in sweeps(lines)
        for x in same
    )  # fmt: skip
    header = ["class", "risk", "delta", "n", "epsilon", "excess", "without noise", "bound", "excess/bound", "applies"]
    return markdown(header, rows)


def draw(lines: list[Line]) -> None:
    """Draw excess and bound, a column per class and a row per risk and sweep."""
    figure = pictures.figure(15, 14)
    rows = [(risk, over) for risk in RISKS for over in ("n", "epsilon")]
    grid = figure.subplots(4, 4, sharey="col", squeeze=False)
    for problem, risk, delta, over, same in sweeps(lines):
        draw_sweep(grid[rows.index((risk, over))][PROBLEMS.index(problem)], risk, delta, over, same)
    for (risk, over), row in zip(rows, grid, strict=True):
        where = f"epsilon = {EPSILON:g}" if over == "n" else f"n = {N}"
        row[0].set_ylabel(f"excess {risk} risk ({where})")
        for axes in row[2:]:
            axes.axhline(LIPSCHITZ * RADIUS, color="gray", lw=1, label="L R: no bound is needed above")
    for axes, problem in zip(grid[0], PROBLEMS, strict=True):
        objective = ("logistic loss" if problem.smooth else "hinge") + (" + mu/2 w²" if problem.strongly else "")
        axes.set_title(f"{problem.name}\n({objective})", fontsize=11)
        low, high = axes.get_ylim()
        axes.set_ylim(low / (high / low) ** 0.15, high)  # room for the slopes
    pictures.legend_below(figure, 4)
    save(figure, "output_risk", 90)


def draw_sweep(axes, risk: str, delta: float, over: str, same: list[Line]) -> None:
    color = "C0" if delta == 0 else "C1"
    x, excess, error, bound, noiseless = columns(same, over, "excess", "error", "bound", "noiseless")
    found, uncertain = slope(x, excess, error)
    label = f"slope {found:.2f} ± {uncertain:.2f}, bound's {slope(x, bound)[0]:.2f}"
    axes.text(0.02, 0.02 if delta == 0 else 0.09, label, color=color, fontsize=9, transform=axes.transAxes)
    axes.errorbar(x, excess, error, marker="o", ms=4, color=color, label=f"measured, delta = {delta:g}")
    axes.plot(x, bound, "--", color=color, label=f"bound, delta = {delta:g}")
    seen = np.where(noiseless > 1e-3 * excess, noiseless, np.nan)
    if not np.isnan(seen).all():
        axes.plot(x, seen, "-.", color=color, lw=0.9, label=f"without noise, delta = {delta:g}")
    if risk == "empirical":
        axes.plot(x, *columns(same, "simulated"), ":", color="black", lw=1.5, label="simulated (empirical)")
    if delta > 0:
        found = DEFAULT.folds(("problem", "n", "epsilon"), risk, over=("repeat",))
        cells = [found.get((line.problem.name, str(line.n), str(line.epsilon))) for line in same]
        values = [np.mean(list(cell.values())) if cell else np.nan for cell in cells]
        axes.plot(x, values, "s-", ms=4, color="C2", lw=1.2, label=f"default estimator, delta = {delta:g}")
    axes.set(xscale="log", yscale="log", xlabel=over)
    axes.set_xticks(x, [f"{v:g}" if v < 1000 else f"{v / 1000:g}k" for v in x], fontsize=9)
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def needs(repeats: int):
    return [(TABLE, keys()), (DEFAULT, default_keys(repeats))]
