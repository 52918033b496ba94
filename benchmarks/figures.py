"""All figures and tables by name: what is measured for them, and how they are drawn. One command for each."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

from . import (
    accuracy,
    claims,
    gradients,
    kddcup,
    line_search,
    output_risk,
    pictures,
    second_order,
    settings,
    suite,
    summary,
)
from .suite import Figure, Table

__all__ = ["FIGURES", "SCRIPTS", "report"]

Measurements = Iterable[tuple[Table, Iterable[tuple]]]
DATASETS = pictures.DATASETS


def against_epsilon(names: Iterable[str], kind: int, options: Namespace) -> Measurements:
    """Return what accuracy.csv has to hold for a picture of accuracy against epsilon."""
    chosen = [pictures.METHODS[name][kind] for name in names]
    keys = [
        (dataset, configuration, epsilon, 1e-8, repeat, fold)
        for repeat in range(options.repeats)
        for configuration in chosen
        if configuration in accuracy.CONFIGURATIONS
        for dataset in DATASETS
        for epsilon in accuracy.EPSILONS
        for fold in range(5)
    ]
    keys += [(d, name, "", "", 0, fold) for d in DATASETS for name in accuracy.BASELINES for fold in range(5)]
    yield accuracy.TABLE, keys


def of_table(table: Table, keys: Callable[[int], Iterable[tuple]], options: Namespace) -> Measurements:
    yield table, keys(options.repeats)


def of_gradients(options: Namespace) -> Measurements:
    del options  # one run each, as in the paper
    yield gradients.TABLE, gradients.keys()


def of_bounds(options: Namespace) -> Measurements:
    if not output_risk.complete():  # a table that is measured as a whole
        output_risk.run(40)
    yield output_risk.DEFAULT, output_risk.default_keys(options.repeats)


def of_second_order(options: Namespace) -> Measurements:
    second_order.run_all(Namespace(data=options.data, methods=second_order.METHODS))
    yield second_order.DEFAULT, second_order.default_keys()


def everything(options: Namespace) -> Measurements:
    for kind in (0, 1):
        yield from against_epsilon(pictures.METHODS, kind, options)
    yield kddcup.TABLE, kddcup.keys(options.repeats)


CROSS = "means over repeats of 5-fold cross-validation; the paper: 20 repeats of 5 folds, which is 100 fits per point"
TEN = "means over repeats of 5-fold cross-validation; the paper: 5 repeats of 10 folds, which is 50 fits per point"


def fits(counted: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """Return how many fits there are per point of each line, given its name and the cell of each of its fits."""
    points: dict[str, Counter[tuple[str, ...]]] = {}
    for name, point in counted:
        points.setdefault(name, Counter())[point] += 1
    texts = []
    for name, cells in points.items():
        least, most = min(cells.values()), max(cells.values())
        texts.append(f"{name}: {least}" + (f" to {most}" if most > least else ""))
    return f"Fits per point here: {'; '.join(texts)}"


def fits_against_epsilon(about: str, names: Iterable[str], kinds: tuple[int, ...] = (0, 1)) -> str:
    lines = {pictures.METHODS[name][kind]: name for name in names for kind in kinds}
    rows = [row for row in accuracy.read() if row["configuration"] in lines and row["delta"] != "0.0"]
    order = {name: index for index, name in enumerate(names)}
    rows.sort(key=lambda row: order[lines[row["configuration"]]])
    counted = ((lines[r["configuration"]], (r["dataset"], r["configuration"], r["epsilon"])) for r in rows)
    return f"{about}. {fits(counted)}"


def fits_of_settings() -> str:
    rows = settings.TABLE.rows()
    return f"{CROSS}. {fits((r['variant'], (r['parameter'], r['value'], r['epsilon'])) for r in rows)}"


def fits_of_kddcup() -> str:
    about = "folds of one 5-fold cross-validation of the 10 % file; the paper: 20 repeats of 5 folds, 4,898,431 rows"
    rows = kddcup.TABLE.rows()
    return f"{about}. {fits((r['configuration'], (r['epsilon'],)) for r in rows if r['epsilon'])}"


def fits_of_line_search() -> str:
    rows = line_search.read()
    return f"{TEN}. {fits((r['parameter'], (r['value'], r['epsilon'])) for r in rows)}"


def fits_of_second_order() -> str:
    rows = second_order.DEFAULT.rows()
    return f"five seeds, as in the paper. {fits(('default', (r['dataset'], r['epsilon'])) for r in rows)}"


def fits_of_bounds() -> str:
    rows = output_risk.DEFAULT.rows()
    about = "means over 40 (hinge) and 120 (logistic; 1,200 in one dimension) repeats; the paper has no experiments"
    return f"{about}. {fits(('default', (r['problem'], r['n'], r['epsilon'])) for r in rows)}"


FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "lee-kifer-1",
            "Lee & Kifer (2018), Figure 1: settings of DP-AGD (splits, gamma, C_grad, C_obj) on Adult",
            ("lee_kifer_1.png",),
            fits_of_settings,
            pictures.lee_kifer_1,
            partial(of_table, settings.TABLE, settings.keys),
            10,
        ),
        Figure(
            "lee-kifer-2",
            "Lee & Kifer (2018), Figure 2: logistic regression, accuracy and objective against epsilon",
            ("lee_kifer_2.png",),
            partial(fits_against_epsilon, CROSS, pictures.LEE_KIFER, (0,)),
            partial(pictures.against_epsilon, "lee_kifer_2", pictures.LEE_KIFER, 0),
            partial(against_epsilon, pictures.LEE_KIFER, 0),
            4,
        ),
        Figure(
            "lee-kifer-3",
            "Lee & Kifer (2018), Figure 3: linear SVM, accuracy and objective against epsilon",
            ("lee_kifer_3.png",),
            partial(fits_against_epsilon, CROSS, pictures.LEE_KIFER, (1,)),
            partial(pictures.against_epsilon, "lee_kifer_3", pictures.LEE_KIFER, 1),
            partial(against_epsilon, pictures.LEE_KIFER, 1),
            4,
        ),
        Figure(
            "lee-kifer-4",
            "Lee & Kifer (2018), Figure 4: KDDCup99, all rows and mini-batches of 40,000, accuracy and time",
            ("lee_kifer_4.png", "kddcup99.md"),
            fits_of_kddcup,
            pictures.lee_kifer_4,
            partial(of_table, kddcup.TABLE, kddcup.keys),
            5,
        ),
        Figure(
            "lee-kifer-table-1",
            "Lee & Kifer (2018), Table 1: true against noisy gradients",
            ("gradients.md",),
            lambda: "one run, as in the paper",
            gradients.report,
            of_gradients,
            None,
        ),
        Figure(
            "chen-lee-1",
            "Chen & Lee (2020), Figure 1: settings of the private line search on Adult",
            ("line_search_settings.png", "line_search.md"),
            fits_of_line_search,
            line_search.report,
            partial(of_table, line_search.TABLE, line_search.keys),
            10,
        ),
        Figure(
            "chen-lee-2",
            "Chen & Lee (2020), Figure 2: how many gradients and losses are computed, against the sampling rate",
            ("line_search_evaluations.png",),
            fits_of_line_search,
            line_search.report,
            partial(of_table, line_search.TABLE, line_search.keys),
            10,
        ),
        Figure(
            "chen-lee-3",
            "Chen & Lee (2020), Figure 3: logistic regression against epsilon",
            ("chen_lee_3.png",),
            partial(fits_against_epsilon, TEN, pictures.CHEN_LEE, (0,)),
            partial(pictures.against_epsilon, "chen_lee_3", pictures.CHEN_LEE, 0),
            partial(against_epsilon, pictures.CHEN_LEE, 0),
            4,
        ),
        Figure(
            "chen-lee-4",
            "Chen & Lee (2020), Figure 4: linear SVM against epsilon",
            ("chen_lee_4.png",),
            partial(fits_against_epsilon, TEN, pictures.CHEN_LEE, (1,)),
            partial(pictures.against_epsilon, "chen_lee_4", pictures.CHEN_LEE, 1),
            partial(against_epsilon, pictures.CHEN_LEE, 1),
            4,
        ),
        Figure(
            "lowy-bounds",
            "Lowy & Razaviyayn (2021), Tables 1-6: excess risk of output perturbation beside the bounds",
            ("output_risk.png", "output_risk.md"),
            fits_of_bounds,
            output_risk.report,
            of_bounds,
            10,
        ),
        Figure(
            "gao-wright",
            "Gao & Wright (2023), tables: second-order descent beside DP-TR and DP-GD",
            ("second_order.md",),
            fits_of_second_order,
            second_order.report,
            of_second_order,
            None,
        ),
        Figure(
            "summary",
            "All methods on all data sets: excess error against epsilon, and the epsilon that comes within 1 point",
            ("summary.png", "summary.md"),
            partial(fits_against_epsilon, "means over repeats of 5-fold cross-validation", pictures.METHODS),
            summary.report,
            everything,
            4,
        ),
    )
}
SCRIPTS = {
    "again": "a sample of accuracy.csv measured once more, beside what stands there",
    "accuracy": "accuracy against epsilon, any configuration",
    "everywhere": "the default on nine data sets",
    "search": "private search beside paying for every fit",
    "seat": "perturbed objective or gradient descent, and the time of both",
    "tuning": "what other constants of the default would do",
    "line_search": "settings and time of the line search",
    "output_risk": "all runs of the bounds anew",
    "beyond": "tilted and adversarial objectives, draws, and their bounds",
    "second_order": "second-order descent, also its accuracy",
    "speed": "time of DP-AGD in multiples of its floor",
    "speed_default": "time of the default in multiples of its floor",
    "storages": "time in memory beside a memory-mapped file, and by rows",
    "predictions": "time of predictions beside one matrix product",
    "primitives": "the cost of every primitive",
    "ledger": "the time of a spend",
    "scale": "memory and time on rows in a file",
}
FURTHER = {
    "[accuracy.md](accuracy.md), `accuracy_*.png`, `accuracy.csv`": (
        "the figures above that need it, and `run accuracy` with `--configurations` and `--repeats`: `default*`, "
        "`DP-AGD standardised` 6, other `DP-AGD*` 10 (`DP-AGD paper's prices`: `--epsilons 0.05 0.1 0.2`), `output "
        "perturbation`, also with `--delta 0`, 4 (24 without SVM at delta 1e-8), all others 4; some cells hold more"
    ),
    "[again.md](again.md)": "`run again --write`",
    "[scale.md](scale.md), `scale.png`, `scale.csv`": (
        "`run scale --folder DIR --write`, in several goes with `--rows` (any folder with 2.4 GB of room)"
    ),
    "[everywhere.md](everywhere.md)": "`run everywhere`",
    "[search.md](search.md)": "`run search --repeats 2`",
    "[tuning.md](tuning.md), [tuning_output.md](tuning_output.md)": (
        "`run tuning --repeats 2`, `run tuning --rule output --repeats 2`"
    ),
    "[seat.md](seat.md), [speed_minima.md](speed_minima.md)": (
        "`run seat --repeats 2 --write`, `run seat --speed --write`"
    ),
    "[beyond.md](beyond.md), `beyond.png`, `beyond.csv`": "`run beyond` (part by part: `--parts`)",
    "[second_order_accuracy.md](second_order_accuracy.md)": "`run second_order --accuracy`",
    "[speed.md](speed.md), [speed_default.md](speed_default.md), [speed_line_search.md](speed_line_search.md)": (
        "`run speed --write`, `run speed_default --write`, `run line_search --speed`"
    ),
    "[storages.md](storages.md)": "`run storages --write`",
    "[primitives.md](primitives.md), [ledger.md](ledger.md)": "`run primitives --write`, `run ledger --write`",
}


def report() -> None:
    """Rebuild every picture and table, the claims and the index."""
    reports = dict.fromkeys(figure.report for figure in FIGURES.values())  # two figures may share one
    with redirect_stdout(StringIO()):  # some show their tables
        for rebuild in (accuracy.report, *reports, claims.report, index):
            rebuild()


def index() -> None:
    """Write ``results/README.md``."""
    lines = [
        "# Results",
        "",
        "Made by `python -m benchmarks report` from the CSV files here. `python -m benchmarks list` names everything",
        "that can be run; each command below measures what is missing (rows that are in a CSV file are not measured",
        "again) and redraws. `DIR` holds the data sets as `.npz` files (`benchmarks/datasets.py` names them); the",
        "extras `test` and `plot` have what is needed.",
        "",
        "**What the papers say, checked: [claims.md](claims.md).** In short, all methods: [summary.md](summary.md).",
        "Every figure of the papers and the summary have the default estimator in them: `DPLogisticRegression` or",
        "`DPLinearSVC`, with public bounds and nothing else set (in the tables of second-order descent without bounds",
        "and intercept, as the problems there).",
        "",
        "Fits are seeded by repeat and fold (`10 * repeat + fold`, the folds by the repeat), so that anybody gets",
        "these numbers; all methods see the same folds. Where a method draws otherwise since it was measured, its rows",
        "differ by chance: [again.md](again.md) has a sample. A fit for release has no seed.",
        "",
        "Number and length of the steps of SGD-Adv and SGD-MA were chosen on one fold of Adult, without privacy.",
        better_steps(),
    ]
    for figure in FIGURES.values():
        text = figure.repeats()
        lines += [
            "",
            f"## {figure.title}",
            "",
            f"`python -m benchmarks run {figure.name} --data DIR`",
            "",
            text[0].upper() + text[1:] + ".",
        ]
        for file in figure.files:
            lines += ["", f"![{figure.title}]({file})" if file.endswith(".png") else f"Numbers: [{file}]({file})"]
    lines += ["", "## Further tables", "", "All commands begin with `python -m benchmarks` and need `--data DIR`."]
    lines += ["", "| file | made by |", "|---|---|", *(f"| {file} | {command} |" for file, command in FURTHER.items())]
    lines += ["", "## Machines", "", "| rows | machine and versions |", "|---|---|"]
    machines = json.loads((suite.RESULTS / "machines.json").read_text())
    lines += [f"| {rows} | {machine} |" for rows, machine in machines.items()]
    lines += ["", *NOTES, *plateau()]
    (suite.RESULTS / "README.md").write_text("\n".join(lines) + "\n")


def plateau() -> tuple[str, ...]:
    """Return what becomes of the hinge loss on Bank."""
    objectives, scores = pictures.all_cells("objective"), pictures.all_cells()
    least = objectives["bank", "not private SVM, alpha 1e-3", ""].mean()
    ends = objectives["bank", "DP-AGD SVM", "1.6"].mean()
    constant = 2 * (1 - scores["bank", "majority", ""].mean() / 100)
    return (
        "",
        "On Bank the hinge loss has a plateau near the constant classifier. Its objective is",
        f"{constant:.4f}; `DP-AGD SVM` ends at {ends:.4f} with epsilon 1.6, and the minimum is near {least:.4f}.",
        "With little noise subgradient steps stay there and the accuracy is that of the majority; with more noise they",
        "leave it.",
    )


def better_steps() -> str:
    """Return what other numbers of steps would give SGD-Adv, which has one number for all epsilons."""
    texts = []
    for epsilon in settings.STEPS_EPSILONS:
        cells = {
            n: pictures.settings_folds()["SGD-Adv", "steps", str(n), str(epsilon)] for n in settings.STEPS["SGD-Adv"]
        }
        scores = {n: suite.per_repeat(folds).mean() for n, folds in cells.items()}
        best, own = max(scores, key=scores.__getitem__), accuracy.ADV["steps"]
        texts.append(
            f"{best} instead of {own} steps give it {scores[best]:.2f} instead of {scores[own]:.2f} at {epsilon:g}"
        )
    return f"SGD-Adv would gain by more steps where epsilon is large: on Adult {', '.join(texts)}."


NOTES = (
    "While the first accuracy runs were made, the rounding of row norms was tightened in the ninth digit: of 12 folds",
    "run again with the final code 11 were identical, one moved by 0.013 percentage points.",
    "",
    "The objective in the pictures is that of alpha = 1e-3 on the training rows. The default, our objective and output",
    "perturbation, DP-SGD and DP-Adam minimise another one (weaker penalties, some in other units), so there a larger",
    "value is no failure. `not private, alpha 1e-3` in `accuracy.csv` (one repeat) is its minimum.",
)
