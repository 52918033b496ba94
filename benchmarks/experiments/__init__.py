"""All experiments: each is a module of its name here, and is registered below."""

from __future__ import annotations

from ..experiment import Experiment

__all__ = ["EXPERIMENTS", "OTHER_NAMES", "report"]

LK, CL, LR, GW = "Lee & Kifer (2018)", "Chen & Lee (2020)", "Lowy & Razaviyayn (2021)", "Gao & Wright (2023)"
LOGISTIC, SVM = "logistic regression, accuracy and objective", "linear SVM, accuracy and objective"
BATCHES = "KDDCup99, all rows and mini-batches of 40,000, accuracy and time"
SEARCH = "settings of the private line search"
EVALUATIONS = "how many gradients and losses are computed, against the sampling rate"
EXCESS = "All methods on all data sets: excess error against epsilon, and the epsilon that comes within 1 point"


def of_paper(name: str, title: str) -> Experiment:
    """Return a figure of accuracy against epsilon."""
    return Experiment(name, "papers", title, (f"{name.replace('-', '_')}.png",), 4, variant=name)


def timed(name: str, title: str, *files: str) -> Experiment:
    return Experiment(name, name, title, files, jobs=1)


ACCURACY = tuple(f"accuracy{part}" for part in (".md", "_adult.png", "_bank.png", "_ipums_br.png"))
SETTINGS = ("line_search_settings.png", "line_search.md")
ALL = (
    Experiment(
        "lee-kifer-1", "settings", f"{LK}, Figure 1: settings of DP-AGD (splits, gamma, C_grad, C_obj) on Adult",
        ("lee_kifer_1.png",), 10,
    ),
    of_paper("lee-kifer-2", f"{LK}, Figure 2: {LOGISTIC} against epsilon"),
    of_paper("lee-kifer-3", f"{LK}, Figure 3: {SVM} against epsilon"),
    Experiment("lee-kifer-4", "kddcup99", f"{LK}, Figure 4: {BATCHES}", ("lee_kifer_4.png", "kddcup99.md"), 5),
    Experiment(
        "lee-kifer-table-1", "gradients", f"{LK}, Table 1: true against noisy gradients", ("gradients.md",), jobs=1
    ),
    Experiment("chen-lee-1", "line_search", f"{CL}, Figure 1: {SEARCH} on Adult", SETTINGS, 10),
    Experiment("chen-lee-2", "line_search", f"{CL}, Figure 2: {EVALUATIONS}", ("line_search_evaluations.png",), 10),
    of_paper("chen-lee-3", f"{CL}, Figure 3: logistic regression against epsilon"),
    of_paper("chen-lee-4", f"{CL}, Figure 4: linear SVM against epsilon"),
    Experiment(
        "chen-lee-5", "chen_lee_5", f"{CL}, Figure 5: networks against iterations", ("chen_lee_5.png", "chen_lee_5.md"),
        5, jobs=1,
    ),
    Experiment(
        "lowy-bounds", "output_risk", f"{LR}, Tables 1-6: excess risk of output perturbation beside the bounds",
        ("output_risk.png", "output_risk.md"), 10, jobs=1,
    ),
    Experiment(
        "gao-wright", "second_order", f"{GW}, tables: second-order descent beside DP-TR and DP-GD",
        ("second_order.md",), jobs=1,
    ),
    Experiment("summary", "summary", EXCESS, ("summary.png", "summary.md"), 4),
    Experiment("accuracy", "accuracy", "accuracy against epsilon, all configurations", ACCURACY),
    Experiment("again", "again", "a sample of accuracy.csv measured once more, beside what stands there"),
    Experiment("everywhere", "everywhere", "the default on nine data sets, and on raw columns", repeats=1),
    Experiment(
        "images", "images", "MNIST and Fashion-MNIST: the default on pixels and on scattering coefficients", repeats=3,
        jobs=1,
    ),
    Experiment(
        "networks", "networks", "networks as they come, on images and tables, beside linear models", repeats=2, jobs=1
    ),
    Experiment("probabilities", "probabilities", "how right probabilities are, beside base rates", repeats=3, jobs=1),
    Experiment("tabular", "tabular", "raw tables: DPTabularClassifier beside DP-EBM and others", repeats=5, jobs=1),
    Experiment("tabular_discovery", "tabular_discovery", "how often a category of one row appears in a model", jobs=1),
    Experiment("persons", "persons", "persons with several rows, beside naive ways", ("persons.md",), 5, jobs=1),
    Experiment("rare_classes", "rare_classes", "2 to 10 % positives: balanced class weights", repeats=10, jobs=1),
    Experiment(
        "evaluation", "evaluation", "private_evaluation: how often intervals hold, and how precise numbers are",
        repeats=60, jobs=1,
    ),
    Experiment("search", "search", "private search beside paying for every fit", repeats=2, jobs=1),
    Experiment("curved", "curved", "curved boundaries: Fourier features beside the default", repeats=1),
    Experiment("seat", "seat", "perturbed objective or gradient descent", repeats=2),
    Experiment("tuning", "tuning", "what other constants of the default would do", repeats=2, variant="tuning"),
    Experiment("small_budgets", "small_budgets", "small budgets and few rows, beside an earlier rule", jobs=1),
    Experiment(
        "tuning_output", "tuning", "what other constants of output perturbation would do", repeats=2,
        variant="tuning_output",
    ),
    Experiment(
        "beyond", "beyond", "tilted and adversarial objectives, draws, and their bounds", ("beyond.md", "beyond.png"),
        20, jobs=1,
    ),
    Experiment(
        "second_order_accuracy", "second_order_accuracy", "accuracy of DPSecondOrderClassifier on Adult and Bank"
    ),
    Experiment("hopeless", "hopeless", "which fits end near chance, and which are warned of", repeats=1, jobs=1),
    timed("speed", "time of DP-AGD in multiples of its floor, and its memory"),
    timed("speed_default", "time of the default in multiples of its floor"),
    timed("speed_minima", "time of fits that find a minimum, beside scikit-learn"),
    timed("speed_line_search", "time of the line search in multiples of its floor"),
    timed("shapes", "time of the default by rows, columns, storage and classes, beside scikit-learn"),
    timed("network_speed", "time of networks in multiples of their bare products, and beside Opacus"),
    timed("storages", "time in memory beside a memory-mapped file, and by rows"),
    timed("tabular_scale", "raw tables: time and memory by rows, beside boosted trees"),
    timed("predictions", "time of predictions beside one matrix product"),
    timed("exports", "exported models: labels, probabilities, time and size beside dpsk"),
    timed("audits", "audits of every estimator: how much of the claimed epsilon three attackers prove"),
    timed("audit_power", "planted faults, and how long audits need to find them"),
    timed("audit_others", "audits of other libraries' private estimators beside those of dpsk"),
    timed("primitives", "the cost of every primitive"),
    timed("ledger", "the time of a spend"),
    timed("scale", "memory and time on rows in a file", "scale.md", "scale.png"),
)  # fmt: skip
OTHER_NAMES = {"line_search": "chen-lee-1", "output_risk": "lowy-bounds", "second_order": "gao-wright"}
EXPERIMENTS = {one.name: one for one in ALL}
EXPERIMENTS |= {other: EXPERIMENTS[name] for other, name in OTHER_NAMES.items()}


def report(names: list[str]) -> None:
    """Rebuild the reports of these experiments from the CSV files; without names all, the claims and the index."""
    chosen = [EXPERIMENTS[name] for name in names or EXPERIMENTS]
    for one in {(one.module, one.variant): one for one in chosen}.values():  # two figures may share a report
        one.report()
    if not names:
        from .. import claims, index

        claims.report()
        index.report(ALL)
