"""Audits of every estimator of dpsk: how much of the epsilon that is claimed three attackers prove.

Each row is one call of ``dpsk.audit`` in one process, by the wall clock. The attacker who sees transcripts is tried at
both kinds of neighbours; the one who sees final models also at a larger claim, as more of it can be proved from a few
hundred fits; the one who sees a single model on rows with 500 columns. Nothing has a seed: audits need fresh noise, so
another run gives other numbers.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom, norm
from sklearn.preprocessing import FunctionTransformer

from dpsk import (
    DPAGDSVC,
    AuditResult,
    Categories,
    DPAGDLogisticRegression,
    DPConvolutionalClassifier,
    DPGradientDescentClassifier,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSecondOrderClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
    audit,
    make_pipeline,
    private_evaluation,
    private_score,
)

from ..experiment import write
from ..inside import Claim, Coin, GaussianDP, gaussian_mu, made_data
from ..table import Row, Rows, Table, markdown

TRANSCRIPT, MODEL, ONE_RUN = "transcript", "model", "one run"
SECONDS = {TRANSCRIPT: {1.0: 10.0}, MODEL: {1.0: 8.0, 8.0: 25.0}, ONE_RUN: {1.0: 15.0, 8.0: 15.0}}
"""By attack and claim: few fits prove little about a small claim, and more of them would not change that."""
ZERO_OUT, REPLACE = "zero-out", "replace"
DELTA, CONFIDENCE, SMALL, LARGE, COLUMNS = 1e-6, 0.999, 1.0, 8.0, 500
PERSONS = np.arange(24) // 3
Drawn = tuple[Any, Any]


def nothing() -> Drawn:
    """Leave it to the audit to make rows."""
    return None, None


def raw() -> Drawn:
    """Return a table of a number and a category."""
    X, y = made_data()
    return pd.DataFrame({"age": X[:, 0], "job": np.array(["nurse", "cook", "clerk"], dtype=object)[PERSONS % 3]}), y


def images() -> Drawn:
    """Return images of 6 x 6 pixels that follow the label in one column."""
    return made_data(36)


def wide() -> Drawn:
    """Return rows with many columns, so that a single model has room for many canaries."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (1_000, COLUMNS)), np.arange(1_000) % 2


@lru_cache(maxsize=1)
def fitted() -> DPLogisticRegression:
    """Return a model that was fitted to other rows than those it is judged on."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (1_000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # seeded: it is public here
        return DPLogisticRegression(epsilon=4.0, random_state=0).fit(X, (X[:, 0] > 0).astype(int))


def scored(epsilon: float, delta: float, adjacency: str) -> Callable[[Any, Any], Any]:
    return lambda X, y: private_score(fitted(), X, y, epsilon=epsilon, adjacency=adjacency)


def evaluated(epsilon: float, delta: float, adjacency: str) -> Callable[[Any, Any], Any]:
    return lambda X, y: private_evaluation(fitted(), X, y, epsilon=epsilon, adjacency=adjacency)


def piped(epsilon: float, delta: float, adjacency: str) -> Any:
    return make_pipeline(FunctionTransformer(np.tanh), DPLogisticRegression(epsilon, delta, adjacency=adjacency))


@dataclass(frozen=True)
class Case:
    """What is audited: ``make(epsilon, delta, adjacency=...)``, and on which data."""

    make: Callable[..., Any]
    delta: float = DELTA
    data: Callable[[], Drawn] = made_data
    groups: np.ndarray | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> str:
        return {scored: "private_score", evaluated: "private_evaluation"}.get(self.make, self.make.__name__)

    def audited(self, attack: str, epsilon: float, neighbours: str, seconds: float) -> AuditResult:
        target = self.make(epsilon, self.delta, adjacency=neighbours, **self.arguments)
        X, y = wide() if attack == ONE_RUN else self.data()
        return audit(
            target, X, y, groups=self.groups, attacks=[attack], seconds=seconds, confidence=CONFIDENCE, n_jobs=None
        )


of_made = partial(Case, data=nothing)
CASES = {
    "DPLogisticRegression": of_made(DPLogisticRegression),
    "DPLogisticRegression, persons": Case(DPLogisticRegression, groups=PERSONS),
    "DPLogisticRegression in a PrivatePipeline": of_made(piped),
    "DPLinearSVC": of_made(DPLinearSVC),
    "DPGradientDescentClassifier": of_made(DPGradientDescentClassifier),
    "DPAGDLogisticRegression": of_made(DPAGDLogisticRegression),
    "DPAGDSVC": of_made(DPAGDSVC),
    "DPLineSearchClassifier": of_made(DPLineSearchClassifier),
    "DPSGDClassifier, 100 batches": of_made(DPSGDClassifier, arguments={"steps": 100, "sampling_rate": 0.1}),
    "DPMLPClassifier": of_made(DPMLPClassifier, arguments={"hidden_layer_sizes": (8,), "steps": 30}),
    "DPMLPClassifier, 100 batches": of_made(
        DPMLPClassifier, arguments={"hidden_layer_sizes": (8,), "steps": 100, "sampling_rate": 0.1}
    ),
    "DPConvolutionalClassifier": Case(
        DPConvolutionalClassifier,
        data=images,
        arguments={"bounds": (-1, 1), "channels": (4,), "kernel_size": 3, "hidden_layer_sizes": (8,), "steps": 30},
    ),
    "DPSecondOrderClassifier": of_made(DPSecondOrderClassifier),
    "DPTabularClassifier, known categories": Case(
        DPTabularClassifier, data=raw, arguments={"columns": {"job": Categories(["nurse", "cook", "clerk"])}}
    ),
    "DPTabularClassifier, unknown categories": Case(DPTabularClassifier, data=raw),
    "DPTabularClassifier, persons": Case(DPTabularClassifier, data=raw, groups=PERSONS),
    "ObjectivePerturbationClassifier": of_made(ObjectivePerturbationClassifier),
    "OutputPerturbationLogisticRegression": of_made(OutputPerturbationLogisticRegression),
    "OutputPerturbationLogisticRegression, delta = 0": of_made(OutputPerturbationLogisticRegression, delta=0.0),
    "OutputPerturbationLogisticRegression, persons": Case(OutputPerturbationLogisticRegression, groups=PERSONS),
    "OutputPerturbationSVC": of_made(OutputPerturbationSVC),
    "private_score": Case(scored, delta=0.0),
    "private_evaluation": Case(evaluated, delta=0.0),
}
SINGLE = (
    "DPLogisticRegression",
    "DPLinearSVC",
    "ObjectivePerturbationClassifier",
    "OutputPerturbationLogisticRegression",
)
"""What is audited by a single model, too."""
IMPOSSIBLE = {
    ("DPLineSearchClassifier", REPLACE), ("DPSGDClassifier, 100 batches", REPLACE),
    ("DPMLPClassifier, 100 batches", REPLACE),
}  # fmt: skip
"""What the library refuses: no theorem covers Poisson batches of rows that are replaced."""


def measure(folder: Path | None, what: str, neighbours: str, claim: float, attack: str) -> list[object]:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fits of an audit have too few rows to learn from
        result = CASES[what].audited(attack, claim, neighbours, SECONDS[attack][claim])
    worked = time.process_time() - begun
    best = result.strongest
    estimate = "" if best is None or best.estimate is None else best.estimate
    pair, seen = ("", "") if best is None else (best.pair, best.seen)
    numbers = result.claim.delta, result.epsilon, result.refuted, estimate, len(result.findings), result.fits
    times = f"{result.seconds:.1f}", f"{worked:.1f}"
    return [*numbers, *times, pair, seen, "; ".join(result.leaks), "; ".join(result.notes)]


FIELDS = (
    "delta", "bound", "refuted", "estimate", "findings", "fits", "seconds", "processor seconds", "pair", "seen",
    "leaks", "notes",
)  # fmt: skip
TABLE = Table("audits", ("what", "neighbours", "claim", "attack"), FIELDS, measure)


def keys(repeats: None) -> list[tuple[str, str, float, str]]:
    seen = [key for key in product(CASES, (ZERO_OUT, REPLACE), (SMALL,), (TRANSCRIPT,)) if key[:2] not in IMPOSSIBLE]
    models = list(product(CASES, (ZERO_OUT,), (SMALL, LARGE), (MODEL,)))
    single = list(product(SINGLE, (REPLACE,), (SMALL, LARGE), (ONE_RUN,)))
    return [*seen, *models, *single]


def report() -> None:
    places = {tuple(map(str, key)): place for place, key in enumerate(keys(None))}
    rows = Rows(sorted(TABLE.rows(), key=lambda row: places[tuple(row[field] for field in TABLE.key)]))
    made, unread = (Rows(row for row in rows if (row["findings"] != "0") == found) for found in (True, False))
    many, most = len(made), int(binom.ppf(CONFIDENCE, len(made), 1 - CONFIDENCE))
    by_attack = {attack: made.where(attack=attack) for attack in SECONDS}
    above = Rows(row for row in made if exceeds(row))
    write(
        "audits",
        machine=TABLE.machine(),
        many=many,
        all=len(rows),
        above=len(above),
        which="".join(f" {', '.join(row[field] for field in TABLE.key)}: {row['bound']}." for row in above),
        expected=f"{many * (1 - CONFIDENCE):.2f}",
        chance=f"{100 * (1 - CONFIDENCE**many):.0f}",
        most=most,
        error=f"{100 * (1 - CONFIDENCE):.1f} %",
        fits=f"{int(made.numbers('fits').sum()):,}",
        minutes=f"{rows.numbers('seconds').sum() / 60:.0f}",
        worked=f"{rows.numbers('processor seconds').sum() / 60:.0f}",
        seconds={
            attack: " or ".join(f"{one:g}" for one in sorted({*given.values()})) for attack, given in SECONDS.items()
        },
        shares=markdown(["attack", "claim", "audits", "least", "median", "most", "estimate, median"], shares(made)),
        transcripts=markdown(HEADER, map(line, by_attack[TRANSCRIPT])),
        unread=markdown(["what", "neighbours", "why"], map(reason, unread)) if unread else "All could be read.",
        models=markdown([*HEADER, "estimate", "one Gaussian value"], map(line_of_models, by_attack[MODEL])),
        single=markdown([*HEADER, "estimate", "guesses"], map(line_of_one_run, by_attack[ONE_RUN])),
        columns=COLUMNS,
    )


HEADER = ["what", "neighbours", "claim", "delta", "bound", "% of claim", "fits", "seconds", "strongest pair"]


def exceeds(row: Row) -> bool:
    return row["refuted"] == "True" or float(row["bound"]) > float(row["claim"]) * (1 + 1e-9)


def line(row: Row) -> list[str]:
    bound, claim = float(row["bound"]), float(row["claim"])
    return [
        *(row[field] for field in ("what", "neighbours")),
        f"{claim:g}",
        f"{float(row['delta']):g}",
        down(bound, 3) + (", refuted" if row["refuted"] == "True" else ""),
        down(100 * bound / claim, 0),
        f"{int(row['fits']):,}",
        f"{float(row['seconds']):.0f} ({float(row['processor seconds']):.0f})",
        row["pair"],
    ]


def down(number: float, digits: int) -> str:
    """Return a bound from below, rounded down."""
    return f"{math.floor(number * 10**digits) / 10**digits:.{digits}f}" if math.isfinite(number) else "infinite"


def estimated(row: Row) -> str:
    return f"{float(row['estimate']):.3g}" if row["estimate"] else ""


def line_of_models(row: Row) -> list[str]:
    return [*line(row), estimated(row), fair(row)]


def line_of_one_run(row: Row) -> list[str]:
    return [*line(row), estimated(row), row["seen"]]


def fair(row: Row) -> str:
    """Return the bound that as many fits would prove of one Gaussian value that costs exactly the claim."""
    counted = re.search(r"and (\d+) fresh fits were counted", row["seen"])
    if counted is None or float(row["delta"]) == 0:
        return ""
    epsilon, delta, n = float(row["claim"]), float(row["delta"]), int(counted[1]) // 2
    mu = gaussian_mu(epsilon, delta)
    claim = Claim(epsilon, delta, GaussianDP(), mu * mu)
    cuts = np.linspace(-2, 2, 17) + mu / 2
    heads = [(round(n * float(norm.sf(cut - mu))), round(n * float(norm.sf(cut)))) for cut in cuts]
    coins = [Coin.seen(counts, (n, n), 1 - CONFIDENCE) for counts in heads]
    return down(max(claim.least_epsilon(coin.delta) for coin in coins), 2) if n else ""


def shares(rows: Rows) -> Iterator[list[object]]:
    """Yield by attack and claim how much of the claim is proved, in percent."""
    for (attack, claim), some in rows.by("attack", "claim").items():
        found = 100 * some.numbers("bound") / float(claim)
        known = [100 * float(row["estimate"]) / float(claim) for row in some if row["estimate"]]
        middle = f"{np.median(known):.0f} ({len(known)} audits)" if known else ""
        numbers = (down(float(number), 0) for number in (found.min(), np.median(found), found.max()))
        yield [attack, f"{float(claim):g}", len(some), *numbers, middle]


def reason(row: Row) -> list[str]:
    return [row["what"], row["neighbours"], row["notes"]]
