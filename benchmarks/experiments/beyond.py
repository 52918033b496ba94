"""Tilted and adversarial objectives, and the exponential mechanism: what they are for, and beside their bounds.

* ``groups``: two groups of one population, one of 5 % of the rows and separated in another direction. Losses of either
  group on fresh rows, over the tilt, at one penalty.
* ``attack``: accuracy of rows that are moved against the model, in l2 and l_inf, trained for it and not: on rows with
  one robust column and nine that tell more and are moved easily, and on Covertype.
* ``draws``: the loss reached by noise, by a draw, and by localisation and a draw, in few dimensions.
* ``bounds``: excess risk of tilted and adversarial objectives beside Theorems 5.1 to 5.3 of Lowy & Razaviyayn (2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from dpsk import OutputPerturbationLogisticRegression

from .. import pictures
from ..experiment import save, write
from ..folds import cached, fitted
from ..inside import AttackedSum, Logistic, RegularizedSum, TiltedSum
from ..known_risks import MU, part
from ..table import Row, Rows, Table, markdown, standard_error

TILTS, ALPHAS = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0), (0.01, 0.03, "auto")
GROUPS = ("small group", "large group")
ATTACKS = {
    "fragile columns": {2.0: (0.1, 0.15, 0.2, 0.25, 0.3), math.inf: (0.04, 0.06, 0.08, 0.1, 0.14)},
    "covertype": {2.0: (0.01, 0.02, 0.04, 0.06, 0.08), math.inf: (0.01, 0.02, 0.03, 0.05, 0.08)},
}
UNDER_ATTACK = ("accuracy", "accuracy under attack")
COLUMNS, SIZES, MECHANISMS = (1, 2, 5), (500, 1000, 2000, 5000, 20_000), ("noise", "exponential", "localization")
FEWEST = {"noise": 0, "exponential": 2000, "localization": 5000}  # with fewer rows of five columns draws are refused
STRENGTHS = {"tilted": (0.1, 0.5, 1.0, 2.0), "adversarial": (0.1, 0.3)}
BOUNDS = {
    "tilted": (
        "section 5.1, any tilt", "section 5.1, conceptual", "Theorem 5.1", "Theorem 5.2", "Theorem 5.2 with C²"
    ),
    "adversarial": ("Proposition 5.1", "Theorem 5.3", "Corollary 2.1"),
}  # fmt: skip


def fit(X: np.ndarray, y: np.ndarray, epsilon: float, delta: float, seed: int, **settings):
    return fitted(OutputPerturbationLogisticRegression(epsilon, delta, random_state=seed, **settings), X, y)[0]


# ------------------------------------------------------------------------------------------------------- groups


def two_groups(n: int, rng: np.random.Generator, share: float = 0.05):
    """Return rows of norm 1 at most, labels, and which rows belong to the small group."""
    small, y = rng.random(n) < share, rng.choice([-1.0, 1.0], n)
    centres = np.where(small[:, None], [0.0, 0.6], [0.6, -0.2])
    X = y[:, None] * centres + np.where(small[:, None], [0.1, 0.1], [0.2, 0.1]) * rng.normal(size=(n, 2))
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None], y, small


@lru_cache(maxsize=1)
def groups(alpha, tilt: float, n: int, epsilon: float, delta: float, repeats: int) -> dict[str, list[float]]:
    """Return losses and accuracies of both groups on fresh rows."""
    test_X, test_y, test_small = two_groups(50_000, np.random.default_rng(1))
    X, y, _ = two_groups(n, np.random.default_rng(0))
    settings = {"objective": "tilted", "tilt": tilt} if tilt else {}
    measured: dict[str, list[float]] = {}
    for seed in range(repeats):
        margin = test_y * fit(X, y, epsilon, delta, seed, alpha=alpha, **settings).decision_function(test_X)
        for group, chosen in zip(GROUPS, (test_small, ~test_small), strict=True):
            measured.setdefault(f"loss of the {group}", []).append(np.logaddexp(0, -margin[chosen]).mean())
            measured.setdefault(f"accuracy of the {group}", []).append((margin[chosen] > 0).mean())
    return measured


# ------------------------------------------------------------------------------------------------------- attack


def fragile(n: int, rng: np.random.Generator):
    """Return rows with one robust column, and nine that together tell more but are moved easily."""
    y = rng.choice([-1.0, 1.0], n)
    easy = [0.06 * y + 0.03 * rng.normal(size=n) for _ in range(9)]
    return np.column_stack([0.4 * y + 0.3 * rng.normal(size=n), *easy]), y


def to_attack(name: str, folder: Path | None):
    """Return rows to train on and rows for tests; of Covertype 40,000 and 10,000."""
    if name == "fragile columns":
        return fragile(20_000, np.random.default_rng(0)), fragile(20_000, np.random.default_rng(1))
    X, y = cached("covtype", folder)
    chosen = np.random.default_rng(0).permutation(len(y))[:50_000]
    return (X[chosen[:40_000]], y[chosen[:40_000]]), (X[chosen[40_000:]], y[chosen[40_000:]])


@lru_cache(maxsize=1)
def attack(folder: Path | None, name: str, setting: str, radius: float, epsilon: float, delta: float, repeats: int):
    """Return accuracies on rows as they are, and moved against the model: margins fall by radius times a norm of w."""
    train, test = to_attack(name, folder)
    objective, _, kind = setting.partition(", ")
    norm = 2.0 if kind == "l2" else math.inf
    settings = {"objective": objective, "attack_radius": radius, "attack_norm": norm}
    settings["data_norm"] = 1.0 if name == "fragile columns" else 2.5
    measured: dict[str, list[float]] = {measure: [] for measure in UNDER_ATTACK}
    for seed in range(repeats):
        model = fit(*train, epsilon, delta, seed, **settings)
        margin, length = (
            test[1] * model.decision_function(test[0]),
            np.linalg.norm(model.coef_[0], ord=2 if norm == 2 else 1),
        )
        measured["accuracy"].append(model.score(*test))
        measured["accuracy under attack"].append(float((margin > radius * length).mean()))
    return measured


# -------------------------------------------------------------------------------------------------------- draws


def draws(d: int, n: int, mechanism: str, epsilon: float, delta: float, repeats: int) -> list[float]:
    """Return the losses on the rows; nothing where a draw is refused."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ (4 * np.ones(d) / math.sqrt(d)) + rng.logistic(size=n) > 0, 1.0, -1.0)
    losses = []
    for seed in range(repeats):
        try:
            model = fit(X, y, epsilon, delta, seed, mechanism=mechanism)
        except ValueError as error:
            if "exact draw" not in str(error):
                raise
            break
        losses.append(np.logaddexp(0, -y * model.decision_function(X)).mean())
    return losses


# ------------------------------------------------------------------------------------------------------- bounds


def objective_of(what: RegularizedSum, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Return the mean objective, computed without the library: no row is flattened here."""
    n = len(y)
    shift = what.radius * (np.linalg.norm(w) if what.norm == 2 else np.abs(w).sum()) if hasattr(what, "radius") else 0.0
    losses = np.logaddexp(0, shift - y * (X @ w))
    if isinstance(what, TiltedSum):
        top = losses.max()
        return float(top + np.log(np.exp(what.tilt * (losses - top)).mean()) / what.tilt + what.penalty / n / 2 * w @ w)
    return float(losses.mean() + what.penalty / n / 2 * w @ w)


def stated(
    what: RegularizedSum, setting: str, n: int, d: int, epsilon: float, delta: float
) -> Iterator[tuple[str, float, bool, bool]]:
    """Yield name, value, whether they are stated for this, and whether for projected weights, of the text's bounds.

    As the paper has them: L, beta and the losses between a and A are those of the loss with its penalty, on a ball that
    holds the minimum, ||w|| <= W = min(L/mu, sqrt(log(2)/mu)).
    """
    a, pure = part(d, n, epsilon, delta), delta == 0
    lipschitz, beta = what.extent + MU * what.farthest, what.extent**2 / 4 + MU
    if setting == "adversarial":
        conceptual = lipschitz**2 / MU * 4 * beta / MU * a**2
        yield "Proposition 5.1", conceptual, True, False
        yield "Theorem 5.3", (26 if pure else 13.5) / 4 * conceptual, a <= 1, False
        yield "Corollary 2.1", (2 if pure else math.sqrt(2)) * lipschitz**2 / MU * a, a <= 1, True
        return
    lowest, highest = what.losses
    c = math.exp(what.tilt * (highest + MU / 2 * what.farthest**2 - lowest))
    kappa = (what.tilt * lipschitz**2 + beta) / MU
    trivial = (2 if pure else math.sqrt(2)) * lipschitz**2 / MU * a
    yield "section 5.1, any tilt", trivial * n, True, True
    yield "section 5.1, conceptual", trivial * c, a <= 1, True
    yield "Theorem 5.1", 9 * lipschitz**2 * c / MU * a, a <= 1, True
    yield "Theorem 5.2", (26 if pure else 13.5) * kappa * lipschitz**2 * c / MU * a**2, a <= 1, False
    yield "Theorem 5.2 with C²", (26 if pure else 13.5) * kappa * lipschitz**2 * c**2 / MU * a**2, a <= 1, False


@lru_cache(maxsize=1)
def bounds(setting: str, strength: float, n: int, epsilon: float, delta: float, repeats: int):
    """Return by name of a bound the excess risks, and the bound."""
    d = 3
    rng = np.random.default_rng([n, round(10 * strength)])
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    if setting == "tilted":
        kind, settings = partial(TiltedSum, tilt=strength), {"tilt": strength}
    else:
        kind, settings = partial(AttackedSum, radius=strength, norm=2, constant=False), {"attack_radius": strength}
    what = kind(Logistic(), n, d, clip=100.0, longest=1.0, penalty=MU * n)
    risk = partial(objective_of, what, X, y)
    best = minimize(risk, np.full(d, 0.1), method="BFGS", tol=1e-10).fun
    settings |= {"objective": setting, "alpha": MU, "gradient_clip": 100.0, "adjacency": "replace"}
    excess: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(repeats):
        w = fit(X, y, epsilon, delta, seed, fit_intercept=False, **settings).coef_[0]
        for projected in (False, True):
            shorter = min(1.0, what.farthest / np.linalg.norm(w)) if projected else 1.0
            excess[projected].append(risk(shorter * w) - best)
    return {
        name: (excess[projected], f"{value:.4g}{'' if applies else ' (not stated for this)'}")
        for name, value, applies, projected in stated(what, setting, n, d, epsilon, delta)
    }


# -------------------------------------------------------------------------------------------------------- table


def measure(folder: Path | None, part, problem, setting, x, n, epsilon, delta, repeats, measure):
    """Return mean, standard error and bound of one cell."""
    values, bound = [], ""
    if part == "groups":
        values = groups(setting, x, n, epsilon, delta, repeats)[measure]
    elif part == "attack":
        values = attack(folder, problem, setting, x, epsilon, delta, repeats)[measure]
    elif part == "draws":
        values = draws(int(problem.split()[0]), n, setting, epsilon, delta, repeats)
    else:
        values, bound = bounds(problem, x, n, epsilon, delta, repeats)[setting]
    if not values:
        return None
    return f"{np.mean(values):.6g}", f"{standard_error(np.array(values)):.3g}", bound


KEY = ("part", "problem", "setting", "x", "n", "epsilon", "delta", "repeats", "measure")
TABLE = Table("beyond", KEY, ("value", "error", "bound"), measure)


def keys(repeats: int) -> Iterator[tuple]:
    of_groups = [f"{measure} of the {group}" for group in GROUPS for measure in ("loss", "accuracy")]
    for alpha in ALPHAS:
        for tilt in TILTS:
            yield from (
                ("groups", "two groups", alpha, tilt, 200_000, 1.0, 0.0, repeats // 2, name) for name in of_groups
            )
    for problem, norms in ATTACKS.items():
        n = 20_000 if problem == "fragile columns" else 40_000
        for norm, radii in norms.items():
            for radius in radii:
                for setting in (f"{objective}, {kind_of(norm)}" for objective in ("erm", "adversarial")):
                    cell = ("attack", problem, setting, radius, n, 1.0, 1e-6, max(2, repeats // 4))
                    yield from ((*cell, name) for name in UNDER_ATTACK)
    for d, n, mechanism in product(COLUMNS, SIZES, MECHANISMS):
        if d < 5 or n >= FEWEST[mechanism]:
            yield "draws", f"{d} columns", mechanism, n, n, 0.5, 0.0, repeats, "loss"
    for problem, strengths in STRENGTHS.items():
        for x in strengths:
            for n, epsilon in ((1000, 1.0), (4000, 1.0), (16_000, 1.0), (4000, 0.3), (4000, 3.0)):
                for delta in (0.0, 1e-6):
                    cell = (x, n, epsilon, delta, repeats, "excess")
                    yield from (("bounds", problem, name, *cell) for name in BOUNDS[problem])


def kind_of(norm: float) -> str:
    return "l2" if norm == 2 else "l_inf"


# ------------------------------------------------------------------------------------------------------- report


def shown(row: Row) -> str:
    return f"{float(row['value']):.3f} ± {float(row['error']):.3f}"


def report() -> None:
    rows = TABLE.rows()
    repeats = {part: found[0]["repeats"] for (part,), found in rows.by("part").items()}
    measured = Rows(row for row in rows.where(part="bounds") if "not stated" not in row["bound"])
    ahead, behind = decided(rows)
    write(
        "beyond",
        repeats=repeats,
        groups=group_table(rows),
        best=best_tilts(rows),
        attacks=attack_table(rows),
        ahead=ahead,
        behind=behind,
        lines=len(list(attack_lines(rows))),
        draws=draw_table(rows),
        mu=MU,
        exceeded=exceeded(measured),
        bounds=bound_table(measured),
    )
    draw(rows)


def of_group(rows: Rows, alpha, measure: str, group: str) -> Rows:
    return rows.where(part="groups", setting=alpha, measure=f"{measure} of the {group}")


def group_table(rows: Rows) -> str:
    lines = [
        [alpha, f"{measure}, {group}", *map(shown, of_group(rows, alpha, measure, group))]
        for alpha in ALPHAS
        for measure in ("loss", "accuracy")
        for group in GROUPS
    ]
    return markdown(["alpha", "measure", *(f"{tilt:g}" for tilt in TILTS)], lines)


def best_tilts(rows: Rows) -> str:
    """Return with which tilt the small group has the least mean loss."""
    least = {a: min(of_group(rows, a, "loss", "small group"), key=lambda row: float(row["value"])) for a in ALPHAS}
    return ", ".join(f"{float(row['x']):g} at alpha = {alpha} (loss {shown(row)})" for alpha, row in least.items())


def attack_lines(rows: Rows) -> Iterator[tuple[str, str, float, list[Row]]]:
    """Yield data, norm, radius, and the rows under attack and not moved, of the mean loss and of its adversary."""
    for name, norms in ATTACKS.items():
        for norm, radii in norms.items():
            for radius in radii:
                found = rows.where(part="attack", problem=name, x=radius).by("measure", "setting")
                kind = kind_of(norm)
                pairs = [(m, o) for m in reversed(UNDER_ATTACK) for o in ("erm", "adversarial")]
                yield name, kind, radius, [found[m, f"{o}, {kind}"][0] for m, o in pairs]


def attack_table(rows: Rows) -> str:
    head = "| | | | under attack | | not moved | |"
    lines = [[name, kind, f"{radius:g}", *map(shown, found)] for name, kind, radius, found in attack_lines(rows)]
    table = markdown(["data", "norm", "radius", "mean loss", "adversarial", "mean loss", "adversarial"], lines)
    header, rule, *rest = table.splitlines()
    return "\n".join([head, rule, header, *rest])


def decided(rows: Rows) -> tuple[int, int]:
    """Return in how many lines training for the attack is ahead under it, and behind, by two standard errors."""
    ahead = behind = 0
    for *_, (plain, trained, _, _) in attack_lines(rows):
        gap = float(trained["value"]) - float(plain["value"])
        error = math.hypot(float(trained["error"]), float(plain["error"]))
        ahead, behind = ahead + (gap > 2 * error), behind + (gap < -2 * error)
    return ahead, behind


def draw_table(rows: Rows) -> str:
    found = rows.where(part="draws").by("problem", "setting", "n")
    lines = []
    for d in COLUMNS:
        for mechanism in MECHANISMS:
            cells = [found.get((f"{d} columns", mechanism, str(n))) for n in SIZES]
            lines.append([d, mechanism, *(shown(cell[0]) if cell else "refused" for cell in cells)])
    return markdown(["columns", "mechanism", *map(str, SIZES)], lines)


def ratio(row: Row) -> float:
    return float(row["value"]) / float(row["bound"])


def exceeded(measured: Rows) -> str:
    above = sum(ratio(row) > 1 for row in measured)
    lines = [f"{above} of {len(measured)} cells where a bound is stated are above it:", ""]
    for (name,), rows in measured.by("setting").items():
        some = [ratio(row) for row in rows]
        lines.append(f"- {name}: {sum(x > 1 for x in some)} of {len(some)}, by a factor of {max(some):.2g} at most")
    return "\n".join(lines)


def bound_table(measured: Rows) -> str:
    fields = ("problem", "x", "setting", "n", "epsilon", "delta")
    lines = (
        [*(row[field] for field in fields), f"{float(row['value']):.3g} ± {float(row['error']):.1g}", row["bound"],
         f"{ratio(row):.2g}"]
        for row in measured
    )  # fmt: skip
    header = ["objective", "x", "bound of", "n", "epsilon", "delta", "excess", "bound", "excess/bound"]
    return markdown(header, lines)


def curve(axes, rows: Rows, **style) -> None:
    axes.errorbar(*(rows.numbers(field) for field in ("x", "value", "error")), marker="o", ms=4, **style)


def draw(rows: Rows) -> None:
    figure = pictures.figure(15, 9)
    (first, *attacks), (last, *others) = figure.subplots(2, 3)
    for alpha, dash in ((0.01, "-"), (0.03, "--")):
        for group, color in zip(GROUPS, ("C3", "C0"), strict=True):
            look = {"color": color, "linestyle": dash, "label": f"{group}, alpha = {alpha}"}
            curve(first, of_group(rows, alpha, "loss", group), **look)
    first.set_xscale("symlog", linthresh=0.1)
    first.set(xlabel="tilt (0: mean of losses)", ylabel="loss on fresh rows", ylim=(0, 1.2))
    pictures.ticks(first, TILTS)
    first.set_title("two groups, 200,000 rows, epsilon = 1, delta = 0")
    first.legend(fontsize=8)
    panels = [(name, kind_of(norm)) for name, norms in ATTACKS.items() for norm in norms]
    for axes, (name, kind) in zip((*attacks, *others), panels, strict=True):
        draw_attack(axes, rows, name, kind)
    attacks[0].legend(fontsize=8)
    for d, color in zip(COLUMNS, ("C0", "C1", "C2"), strict=True):
        for mechanism, dash in zip(MECHANISMS, (":", "-", "--"), strict=True):
            found = rows.where(part="draws", problem=f"{d} columns", setting=mechanism)
            if found:
                curve(last, found, color=color, linestyle=dash, label=f"{d}, {mechanism}")
    last.set(xscale="log", xlabel="rows", ylabel="loss", title="columns, and how: epsilon = 0.5, delta = 0")
    last.legend(fontsize=8)
    save(figure, "beyond", 90)


def draw_attack(axes, rows: Rows, name: str, kind: str) -> None:
    for objective, color in (("erm", "C0"), ("adversarial", "C3")):
        for measure, dash in (("accuracy under attack", "-"), ("accuracy", ":")):
            found = rows.where(part="attack", problem=name, setting=f"{objective}, {kind}", measure=measure)
            label = f"{'mean loss' if objective == 'erm' else objective}, {measure.removeprefix('accuracy ')}"
            curve(axes, found, color=color, linestyle=dash, label=label.replace(", accuracy", ", not moved"))
    axes.axhline(0.5 if name != "covertype" else 0.576, color="black", lw=0.8, label="majority")
    axes.set(xlabel=f"radius of the attack, {kind}", ylabel="accuracy", title=f"{name}, epsilon = 1, delta = 1e-6")
