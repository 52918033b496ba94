"""Faults that are planted in the library, and how long each of two attackers needs until an audit refutes the claim.

Every attack is ``dpsk.audit`` in one process, by the wall clock. It gets few seconds, then several times as many, and
so on, each time from the beginning, until it refutes. What counts is the one that does. The honest library, with the
same estimators and data, is audited for as long as that one, or for 10 seconds if that is less.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import shorten

import numpy as np

from dpsk import (
    AuditResult,
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSGDClassifier,
    DPTabularClassifier,
    OutputPerturbationLogisticRegression,
)

from .. import planted
from ..experiment import write
from ..table import Row, Rows, Table, markdown
from .audits import CONFIDENCE, MODEL, PERSONS, REPLACE, TRANSCRIPT, ZERO_OUT, Case, down, nothing, raw, scored

TIMES = {TRANSCRIPT: (2.5, 5.0, 10.0, 20.0, 40.0, 60.0), MODEL: (40.0,)}
"""How long audits may take, one after the other. The one who sees models stops by itself where it refutes."""
HONEST = 10.0
PLAIN = {"steps": 4, "momentum": 0.0, "average": 1e-9, "alpha": 0.0, "step_size": 1e-3, "gradient_clip": 0.1}
"""Descent without momentum and averaging: the model is the sum of the noisy gradients."""


@dataclass(frozen=True)
class Fault:
    """What is planted, in which estimator, and the claim at which each attack is made."""

    planted: Callable[[], AbstractContextManager[None]]
    case: Case
    neighbours: str = REPLACE
    claim: float = 1.0
    claim_of_models: float = 8.0

    def claimed(self, attack: str) -> float:
        return self.claim if attack == TRANSCRIPT else self.claim_of_models


DEFAULT = Case(DPLogisticRegression)
DESCENT = Case(DPGradientDescentClassifier, arguments=PLAIN)
MINIMUM = Case(OutputPerturbationLogisticRegression, data=nothing, arguments={"fit_intercept": False, "alpha": 0.1})
PURE = Case(OutputPerturbationLogisticRegression, delta=0.0, data=nothing, arguments={"fit_intercept": False})
BATCHES = Case(DPSGDClassifier, data=nothing, arguments={"steps": 100, "sampling_rate": 0.1})
NETWORK = Case(
    DPMLPClassifier,
    arguments={
        "hidden_layer_sizes": (4,), "activation": "relu", "solver": "sgd", "steps": 4, "average": 1e-9, "alpha": 0.0,
        "learning_rate": 1e-3, "gradient_clip": 0.1,
    },
)  # fmt: skip
FAULTS = {
    "noise of gradients halved": Fault(planted.halved_noise, DESCENT),
    "noise of a minimum halved": Fault(planted.halved_noise, MINIMUM),
    "noise of a minimum halved, delta = 0": Fault(planted.halved_noise_of_a_norm, PURE, claim_of_models=1.0),
    "noise of a score halved": Fault(planted.halved_noise_of_a_score, Case(scored, delta=0.0), claim_of_models=1.0),
    "uniform noise instead of Gaussian": Fault(planted.uniform_noise, MINIMUM),
    "one noise for two releases of a fit": Fault(planted.repeated_noise, DEFAULT),
    "one seed for all fits": Fault(planted.one_seed, DEFAULT),
    "a forgotten clip": Fault(
        planted.no_clip, Case(DPGradientDescentClassifier, arguments={**PLAIN, "bounds": (-1, 1)})
    ),
    "biases of a network not clipped": Fault(planted.unclipped_bias, NETWORK),
    "batch norm in a network": Fault(planted.batch_norm, NETWORK),
    "activations rounded by the batch": Fault(planted.rounded_by_batch, NETWORK),
    "rows protected, persons promised": Fault(planted.rows_for_persons, Case(DPLogisticRegression, groups=PERSONS)),
    "an unpaid release": Fault(planted.unpaid, DEFAULT),
    "batches amplified twice": Fault(planted.amplified_twice, BATCHES, ZERO_OUT),
    "a threshold of discovery that is too low": Fault(planted.low_threshold, Case(DPTabularClassifier, data=raw)),
    "an exact count as an attribute": Fault(planted.counted, DEFAULT),
    "an exact count as a probability": Fault(planted.share_of_the_unknown, DEFAULT),
    "an exact count in noisy probabilities": Fault(planted.share_among_noise, DEFAULT),
    "an exception that a row decides": Fault(planted.refusing, DEFAULT),
    "a warning that a row decides": Fault(planted.warning, DEFAULT),
}


def audited(fault: Fault, attack: str, seconds: float, there: bool) -> AuditResult:
    with fault.planted() if there else nullcontext():
        return fault.case.audited(attack, fault.claimed(attack), fault.neighbours, seconds)


def measure(folder: Path | None, name: str, attack: str) -> list[object]:
    fault = FAULTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fits of an audit have too few rows to learn from
        for given in TIMES[attack]:
            begun = time.process_time()
            result = audited(fault, attack, given, True)
            worked = time.process_time() - begun
            if result.refuted:
                break
        honest = audited(fault, attack, min(given, HONEST), False)
    numbers = result.epsilon, result.fits, given, f"{result.seconds:.1f}", f"{worked:.1f}"
    pair = "" if result.strongest is None else result.strongest.pair
    seen = shorten([*result.leaks, *result.notes, ""][0], 160)
    about = fault.claimed(attack), fault.neighbours, result.refuted
    return [*about, *numbers, honest.refuted, honest.epsilon, pair, seen]


FIELDS = (
    "claim", "neighbours", "caught", "bound", "fits", "given", "seconds", "processor seconds", "honest caught",
    "honest bound", "pair", "seen",
)  # fmt: skip
TABLE = Table("audit_power", ("fault", "attack"), FIELDS, measure)


def keys(repeats: None) -> list[tuple[str, str]]:
    return list(product(FAULTS, (TRANSCRIPT, MODEL)))


HEADER = [
    "fault",
    "attack",
    "claim",
    "caught",
    "fits",
    "seconds",
    "processor seconds",
    "bound",
    "bound without",
    "seen",
]


def report() -> None:
    places = {key: place for place, key in enumerate(keys(None))}
    rows = Rows(sorted(TABLE.rows(), key=lambda row: places[row["fault"], row["attack"]]))
    caught = rows.where(caught="True")
    quickest = {fault: some.numbers("seconds").min() for (fault,), some in caught.by("fault").items()}
    missed = sorted(set(rows.by("fault")) - {(fault,) for fault in quickest})
    write(
        "audit_power",
        machine=TABLE.machine(),
        faults=len(rows.by("fault")),
        within=len(quickest),
        missed=" Not caught: " + "; ".join(fault for (fault,) in missed) + "." if missed else "",
        transcript=len(caught.where(attack=TRANSCRIPT)),
        model=len(caught.where(attack=MODEL)),
        both=sum(len(some) == 2 for some in caught.by("fault").values()),
        slowest=f"{max(quickest.values(), default=0):.0f}",
        median=f"{np.median(list(quickest.values()) or [0]):.0f}",
        times={attack: ", ".join(f"{one:g}" for one in times) for attack, times in TIMES.items()},
        longest=f"{HONEST:g}",
        false=len(rows.where(**{"honest caught": "True"})),
        honest=len(rows),
        expected=f"{len(rows) * (1 - CONFIDENCE):.2f}",
        confidence=f"{100 * CONFIDENCE:g} %",
        table=markdown(HEADER, map(line, rows)),
        cases=markdown(["fault", "what is done", "estimator", "neighbours"], map(described, FAULTS)),
    )


def line(row: Row) -> list[str]:
    there = row["caught"] == "True"
    limit = TIMES[row["attack"]][-1]
    return [
        row["fault"],
        row["attack"],
        f"{float(row['claim']):g}",
        "yes" if there else f"not within {limit:g} s",
        f"{int(row['fits']):,}",
        f"{float(row['seconds']):.1f}",
        f"{float(row['processor seconds']):.1f}",
        down(float(row["bound"]), 2),
        down(float(row["honest bound"]), 2),
        row["pair"] if there and " pairs: " in row["seen"] else row["seen"] or row["pair"],
    ]


def described(name: str) -> list[str]:
    """Return what is planted in words, and where."""
    fault = FAULTS[name]
    parameters = ", ".join(f"{key}={value!r}" for key, value in fault.case.arguments.items())
    where = f"`{fault.case.named}({parameters})`" if parameters else f"`{fault.case.named}`"
    words = " ".join((fault.planted.__doc__ or "").split())
    return [name, words.removesuffix("."), where, fault.neighbours]
