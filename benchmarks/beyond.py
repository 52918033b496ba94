"""Tilted and adversarial objectives, and the exponential mechanism: what they are for, and beside their bounds.

    python -m benchmarks run beyond --data DIR [--parts groups]   (measures, writes beyond.csv, .md and .png)
    python -m benchmarks run beyond --report                      (table and picture from the CSV file only)

* ``groups``: two groups of one population, one of 5 % of the rows and separated in another direction. Losses of either
  group on fresh rows, over the tilt, at one penalty.
* ``attack``: accuracy of rows that are moved against the model, in l2 and l_inf, trained for it and not: on rows with
  one robust column and nine that tell more and are moved easily, and on Covertype.
* ``draws``: the loss reached by noise, by a draw, and by localisation and a draw, in few dimensions.
* ``bounds``: excess risk of tilted and adversarial objectives beside Theorems 5.1 to 5.3 of Lowy & Razaviyayn (2021).
"""

from __future__ import annotations

import argparse
import csv
import math
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from dpsk import OutputPerturbationLogisticRegression
from dpsk.losses import Logistic
from dpsk.minimizers import AttackedSum, RegularizedSum, TiltedSum

from .accuracy import RESULTS, standard_error
from .datasets import load
from .output_risk import part

CSV = RESULTS / "beyond.csv"
FIELDS = ("part", "problem", "setting", "x", "n", "epsilon", "delta", "repeats", "measure", "value", "error", "bound")
TILTS = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0)
ALPHAS = (0.01, 0.03, "auto")
MU = 0.05  # of the bounds


def fit(X: np.ndarray, y: np.ndarray, epsilon: float, delta: float, seed: int, **settings):
    """Return a fit; doubts about it, which are meant for users, are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return OutputPerturbationLogisticRegression(epsilon, delta, random_state=seed, **settings).fit(X, y)


def line(part_name, problem, setting, x, n, epsilon, delta, measure, values, bound="") -> dict[str, str]:
    values = np.asarray(values)
    numbers = (f"{values.mean():.6g}", f"{standard_error(values):.3g}")
    row = (part_name, problem, setting, x, n, epsilon, delta, len(values), measure, *numbers, bound)
    return dict(zip(FIELDS, map(str, row), strict=True))


# ------------------------------------------------------------------------------------------------------- groups


def two_groups(n: int, rng: np.random.Generator, share: float = 0.05):
    """Return rows of norm 1 at most, labels, and which rows belong to the small group."""
    small, y = rng.random(n) < share, rng.choice([-1.0, 1.0], n)
    centres = np.where(small[:, None], [0.0, 0.6], [0.6, -0.2])
    X = y[:, None] * centres + np.where(small[:, None], [0.1, 0.1], [0.2, 0.1]) * rng.normal(size=(n, 2))
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None], y, small


def groups(options) -> Iterator[dict[str, str]]:
    n, epsilon = 200_000, 1.0
    test_X, test_y, test_small = two_groups(50_000, np.random.default_rng(1))
    X, y, _ = two_groups(n, np.random.default_rng(0))
    for alpha in ALPHAS:
        for tilt in TILTS:
            settings = {"objective": "tilted", "tilt": tilt} if tilt else {}
            measured: dict[str, list[float]] = {}
            for seed in range(options.repeats // 2):
                model = fit(X, y, epsilon, 0.0, seed, alpha=alpha, **settings)
                margin = test_y * model.decision_function(test_X)
                for group, chosen in (("small group", test_small), ("large group", ~test_small)):
                    measured.setdefault(f"loss of the {group}", []).append(np.logaddexp(0, -margin[chosen]).mean())
                    measured.setdefault(f"accuracy of the {group}", []).append((margin[chosen] > 0).mean())
            for measure, values in measured.items():
                yield line("groups", "two groups", alpha, tilt, n, epsilon, 0.0, measure, values)


# ------------------------------------------------------------------------------------------------------- attack


def fragile(n: int, rng: np.random.Generator):
    """Return rows with one robust column, and nine that together tell more but are moved easily."""
    y = rng.choice([-1.0, 1.0], n)
    easy = [0.06 * y + 0.03 * rng.normal(size=n) for _ in range(9)]
    return np.column_stack([0.4 * y + 0.3 * rng.normal(size=n), *easy]), y


def covertype(folder: Path):
    """Return 40,000 rows to train on and 10,000 for tests."""
    X, y = load("covtype", folder)
    chosen = np.random.default_rng(0).permutation(len(y))[:50_000]
    return (X[chosen[:40_000]], y[chosen[:40_000]]), (X[chosen[40_000:]], y[chosen[40_000:]])


def under_attack(model, X: np.ndarray, y: np.ndarray, radius: float, norm: float) -> float:
    """Return the accuracy where every row is moved against the model: a margin falls by radius times a norm of w."""
    length = np.linalg.norm(model.coef_[0], ord=2 if norm == 2 else 1)
    return float((y * model.decision_function(X) > radius * length).mean())


ATTACKS = {
    "fragile columns": {2.0: (0.1, 0.15, 0.2, 0.25, 0.3), math.inf: (0.04, 0.06, 0.08, 0.1, 0.14)},
    "covertype": {2.0: (0.01, 0.02, 0.04, 0.06, 0.08), math.inf: (0.01, 0.02, 0.03, 0.05, 0.08)},
}


def attack(options) -> Iterator[dict[str, str]]:
    synthetic = fragile(20_000, np.random.default_rng(0)), fragile(20_000, np.random.default_rng(1))
    for name, (train, test), bound in (
        ("fragile columns", synthetic, 1.0),
        ("covertype", covertype(options.data), 2.5),
    ):
        for norm, radii in ATTACKS[name].items():
            for radius in radii:
                for objective in ("erm", "adversarial"):
                    settings = {"objective": objective, "attack_radius": radius, "attack_norm": norm}
                    clean, moved = [], []
                    for seed in range(max(2, options.repeats // 4)):
                        model = fit(*train, 1.0, 1e-6, seed, data_norm=bound, **settings)
                        clean.append(model.score(*test))
                        moved.append(under_attack(model, *test, radius, norm))
                    kind = f"{objective}, {'l2' if norm == 2 else 'l_inf'}"
                    for measure, values in (("accuracy", clean), ("accuracy under attack", moved)):
                        yield line("attack", name, kind, radius, len(train[1]), 1.0, 1e-6, measure, values)


# ------------------------------------------------------------------------------------------------------- draws


def draws(options) -> Iterator[dict[str, str]]:
    for d in (1, 2, 5):
        for n in (500, 1000, 2000, 5000, 20_000):
            rng = np.random.default_rng(d)
            X = rng.normal(size=(n, d))
            X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
            y = np.where(X @ (4 * np.ones(d) / math.sqrt(d)) + rng.logistic(size=n) > 0, 1.0, -1.0)
            for mechanism in ("noise", "exponential", "localization"):
                losses = []
                for seed in range(options.repeats):
                    try:
                        model = fit(X, y, 0.5, 0.0, seed, mechanism=mechanism)
                    except ValueError as error:
                        if "exact draw" not in str(error):
                            raise
                        break
                    losses.append(np.logaddexp(0, -y * model.decision_function(X)).mean())
                if losses:
                    yield line("draws", f"{d} columns", mechanism, n, n, 0.5, 0.0, "loss", losses)


# ------------------------------------------------------------------------------------------------------ bounds


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


def bounds(options) -> Iterator[dict[str, str]]:
    d = 3
    for setting in ("tilted", "adversarial"):
        for strength in (0.1, 0.5, 1.0, 2.0) if setting == "tilted" else (0.1, 0.3):
            for n, epsilon in ((1000, 1.0), (4000, 1.0), (16_000, 1.0), (4000, 0.3), (4000, 3.0)):
                for delta in (0.0, 1e-6):
                    rng = np.random.default_rng([n, round(10 * strength)])
                    X = rng.normal(size=(n, d))
                    X /= np.linalg.norm(X, axis=1)[:, None]
                    y = np.where(X[:, 0] + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
                    sizes = {"clip": 100.0, "longest": 1.0, "penalty": MU * n}
                    if setting == "tilted":
                        kind = partial(TiltedSum, tilt=strength)
                        settings = {"objective": setting, "tilt": strength}
                    else:
                        kind = partial(AttackedSum, radius=strength, norm=2, constant=False)
                        settings = {"objective": setting, "attack_radius": strength}
                    what = kind(Logistic(), n, d, **sizes)
                    risk = partial(objective_of, what, X, y)
                    best = minimize(risk, np.full(d, 0.1), method="BFGS", tol=1e-10).fun
                    settings |= {"alpha": MU, "gradient_clip": 100.0, "adjacency": "replace", "fit_intercept": False}
                    excess: dict[bool, list[float]] = {False: [], True: []}
                    for seed in range(options.repeats):
                        w = fit(X, y, epsilon, delta, seed, **settings).coef_[0]
                        for projected in (False, True):
                            shorter = min(1.0, what.farthest / np.linalg.norm(w)) if projected else 1.0
                            excess[projected].append(risk(shorter * w) - best)
                    for name, value, applies, projected in stated(what, setting, n, d, epsilon, delta):
                        bound = f"{value:.4g}{'' if applies else ' (not stated for this)'}"
                        yield line(
                            "bounds", setting, name, strength, n, epsilon, delta, "excess", excess[projected], bound
                        )


# ------------------------------------------------------------------------------------------------------ report


def read() -> list[dict[str, str]]:
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def of(lines, **wanted) -> list[dict[str, str]]:
    return [row for row in lines if all(row[key] == str(value) for key, value in wanted.items())]


def value(row: dict[str, str]) -> str:
    return f"{float(row['value']):.3f} ± {float(row['error']):.3f}"


def report() -> None:
    lines = read()
    repeats = {row["part"]: row["repeats"] for row in lines}
    text = [
        "# Beyond averages: tilted and adversarial objectives, and draws",
        "",
        "Made by `python -m benchmarks run beyond --data DIR`: fits of `OutputPerturbationLogisticRegression`, means",
        "with their standard errors over seeds, the rows fixed. Everything else is as it is by default.",
        "",
        "## Tilt: losses of two groups on fresh rows",
        "",
        "5 % of the rows are separated in another direction. delta = 0, epsilon = 1, 200,000 rows,",
        f"{repeats['groups']} fits each. Tilt 0 is the mean of losses. (A constant model has a loss of 0.693.) At",
        "one penalty the small group does better with more tilt, until one row could weigh so much that noise",
        "hides both groups; a larger penalty bears more tilt. Automatic penalties grow with the tilt, and the",
        "mean of losses has the smallest: as these two groups do not contradict each other, a small penalty",
        "serves the small group better than a tilt.",
        "",
        "| alpha | measure | " + " | ".join(f"{tilt:g}" for tilt in TILTS) + " |",
        "|---" * (2 + len(TILTS)) + "|",
    ]
    for alpha in ALPHAS:
        for measure in ("loss", "accuracy"):
            for group in ("small group", "large group"):
                rows = of(lines, part="groups", setting=alpha, measure=f"{measure} of the {group}")
                text.append(f"| {alpha} | {measure}, {group} | {' | '.join(map(value, rows))} |")
    text += [
        "",
        "## Attack: accuracy where every row is moved against the model",
        "",
        f"epsilon = 1, delta = 1e-6, {repeats['attack']} fits each, trained for the attack that it is tested with.",
        "Fragile columns: half of the rows have label 1. Covertype: 40,000 rows in [0, 1], `data_norm=2.5`, and",
        "the same label for 57.6 %. Training for an attack pays where it is strong enough to change which columns",
        "are worth using.",
        "",
        "| | | | under attack | | not moved | |",
        "|---|---|---|---|---|---|---|",
        "| data | norm | radius | mean loss | adversarial | mean loss | adversarial |",
    ]
    for name, norms in ATTACKS.items():
        for norm, radii in norms.items():
            kind = "l2" if norm == 2 else "l_inf"
            for radius in radii:
                cells = [
                    value(of(lines, part="attack", problem=name, setting=f"{o}, {kind}", x=radius, measure=measure)[0])
                    for measure in ("accuracy under attack", "accuracy")
                    for o in ("erm", "adversarial")
                ]
                text.append(f"| {name} | {kind} | {radius:g} | {' | '.join(cells)} |")
    text += [
        "",
        "## Draws instead of noise",
        "",
        f"Mean logistic loss on the rows, delta = 0, epsilon = 0.5, {repeats['draws']} fits each, all automatic.",
        "",
        "| columns | mechanism | 500 | 1000 | 2000 | 5000 | 20000 |",
        "|---|---|---|---|---|---|---|",
    ]
    for d in (1, 2, 5):
        for mechanism in ("noise", "exponential", "localization"):
            found = [
                of(lines, part="draws", problem=f"{d} columns", setting=mechanism, n=n)
                for n in (500, 1000, 2000, 5000, 20_000)
            ]
            text.append(f"| {d} | {mechanism} | {' | '.join(value(f[0]) if f else 'refused' for f in found)} |")
    text += [
        "",
        "## Excess risk beside the bounds of section 5",
        "",
        f"Rows of norm 1 in 3 dimensions, mu = {MU}, replaced rows, nothing clipped, {repeats['bounds']} fits",
        "each. L, beta and C are those of the loss with its penalty on the ball of all minima, as the paper has",
        "them (our sensitivity is smaller: the penalty is outside of the tilt). x is the tilt, or the radius of",
        "the attack in l2. Bounds without smoothness are for weights that are projected to that ball.",
        "",
        "Why some are exceeded:",
        "",
        "- Theorem 5.2 has C once, although the square of the sensitivity, from which it is said to follow, has",
        "  it twice.",
        "",
        "- Proposition 5.1 and Theorem 5.3 ask for a loss that is smooth in w for every v. The largest over v has",
        "  a kink at w = 0, and near a minimum there noise costs its length, not its square. Corollary 2.1 does",
        "  not ask for smoothness.",
        "",
    ]
    measured = [row for row in of(lines, part="bounds") if "not stated" not in row["bound"]]
    above = [row for row in measured if float(row["value"]) > float(row["bound"])]
    text += [f"{len(above)} of {len(measured)} cells where a bound is stated are above it:", ""]
    for name in dict.fromkeys(row["setting"] for row in measured):
        some = [float(row["value"]) / float(row["bound"]) for row in of(measured, setting=name)]
        text.append(f"- {name}: {sum(x > 1 for x in some)} of {len(some)}, by a factor of {max(some):.2g} at most")
    text.append("")
    text += ["| objective | x | bound of | n | epsilon | delta | excess | bound | excess/bound |", "|---" * 9 + "|"]
    for row in measured:
        text.append(
            f"| {row['problem']} | {row['x']} | {row['setting']} | {row['n']} | {row['epsilon']} | {row['delta']} | "
            f"{float(row['value']):.3g} ± {float(row['error']):.1g} | {row['bound']} | "
            f"{float(row['value']) / float(row['bound']):.2g} |"
        )
    (RESULTS / "beyond.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))
    draw(lines)


def draw(lines) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 9), layout="constrained")
    (first, *attacks), (last, *others) = figure.subplots(2, 3)

    def curve(axes, rows, **style) -> None:
        x, y, error = np.array([(float(r["x"]), float(r["value"]), float(r["error"])) for r in rows]).T
        axes.errorbar(x, y, error, marker="o", ms=4, **style)

    for alpha, dash in ((0.01, "-"), (0.03, "--")):
        for group, color in (("small group", "C3"), ("large group", "C0")):
            rows = of(lines, part="groups", setting=alpha, measure=f"loss of the {group}")
            curve(first, rows, color=color, linestyle=dash, label=f"{group}, alpha = {alpha}")
    first.set_xscale("symlog", linthresh=0.1)
    first.set(xlabel="tilt (0: mean of losses)", ylabel="loss on fresh rows", ylim=(0, 1.2))
    first.set_xticks(TILTS, [f"{tilt:g}" for tilt in TILTS])
    first.set_title("two groups, 200,000 rows, epsilon = 1, delta = 0")
    first.legend(fontsize=8)
    panels = [(name, kind) for name in ATTACKS for kind in ("l2", "l_inf")]
    for axes, (name, kind) in zip((*attacks, *others), panels, strict=True):
        for objective, color in (("erm", "C0"), ("adversarial", "C3")):
            for measure, dash in (("accuracy under attack", "-"), ("accuracy", ":")):
                rows = of(lines, part="attack", problem=name, setting=f"{objective}, {kind}", measure=measure)
                label = f"{'mean loss' if objective == 'erm' else objective}, {measure.removeprefix('accuracy ')}"
                curve(axes, rows, color=color, linestyle=dash, label=label.replace(", accuracy", ", not moved"))
        axes.axhline(0.5 if name != "covertype" else 0.576, color="black", lw=0.8, label="majority")
        axes.set(xlabel=f"radius of the attack, {kind}", ylabel="accuracy", title=f"{name}, epsilon = 1, delta = 1e-6")
    attacks[0].legend(fontsize=8)
    for d, color in ((1, "C0"), (2, "C1"), (5, "C2")):
        for mechanism, dash in (("noise", ":"), ("exponential", "-"), ("localization", "--")):
            rows = of(lines, part="draws", problem=f"{d} columns", setting=mechanism)
            if rows:
                curve(last, rows, color=color, linestyle=dash, label=f"{d}, {mechanism}")
    last.set(xscale="log", xlabel="rows", ylabel="loss", title="columns, and how: epsilon = 0.5, delta = 0")
    last.legend(fontsize=8)
    figure.savefig(RESULTS / "beyond.png", dpi=90)


PARTS = {"groups": groups, "draws": draws, "bounds": bounds, "attack": attack}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the .npz files; without it scikit-learn fetches them")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="which to measure anew")
    parser.add_argument("--report", action="store_true", help="only rebuild the table and the picture")
    options = parser.parse_args()
    if not options.report:
        kept = [row for row in (read() if CSV.exists() else []) if row["part"] not in options.parts]
        with CSV.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(kept)
            for name in options.parts:
                for row in PARTS[name](options):
                    writer.writerow(row)
                    file.flush()
    report()


if __name__ == "__main__":
    main()
