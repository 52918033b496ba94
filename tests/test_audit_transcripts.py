"""Audits that see transcripts: correct fits stay below what they promise and come close to it; faults are caught.

Bounds hold with an error probability of 1e-6 per audit. Noise is drawn anew in each run, as in every audit.
"""

import numpy as np
import pandas as pd
import pytest

import dpsk.data.ahead as ahead
from benchmarks import planted
from dpsk import (
    Categories,
    DPAGDLogisticRegression,
    DPLogisticRegression,
    DPSGDClassifier,
    DPTabularClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
)
from dpsk.audits.claims import Claim
from dpsk.audits.neighbouring import Data, Pair
from dpsk.audits.transcripts import read_transcripts

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows: a fit says that it is hopeless
ERROR = 1e-6
N = 100
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few rows: fits say that they are hopeless


def lone(label, entries=(1e3, 1e3)):
    """Return rows of zeros, and one that alone decides the weights."""
    X, y = np.zeros((N, 2)), np.arange(N) % 2
    X[3], y[3] = entries, label
    return X, y


def pair(size=1, **arguments):
    return Pair("a lone row", *(Data(*lone(*row), arguments) for row in ((1,), (0, (0.5, 0.5)))), size)


def weight_pair():
    X, y = lone(1, (1e3, 0.0))
    weights = np.ones(N), np.ones(N)
    weights[1][3] = 0.0
    return Pair("a weight", *(Data(X, y, {"sample_weight": some}) for some in weights))


def audited(make, two, seconds=3.0):
    """Return what transcripts tell about a pair, and what the fit promises."""

    def fit(data):
        return make().fit(data.X, data.y, **data.arguments)

    claim = Claim.of(fit(two.one).privacy_spent_)
    *_, found = read_transcripts(fit, [two], claim, error=ERROR, seconds=seconds)  # the last one had the most draws
    return found, claim


def default(**parameters):
    return DPLogisticRegression(1.0, 1e-6, adjacency="replace", **parameters)


CLOSE = {  # how much of a claim of epsilon 1 is found
    "default": (default, 0.85),
    "tabular": (lambda: DPTabularClassifier(1.0, 1e-6, adjacency="replace"), 0.8),
    "output": (
        lambda: OutputPerturbationLogisticRegression(1.0, 1e-6, adjacency="replace", fit_intercept=False),
        0.9,
    ),
    "adaptive": (lambda: DPAGDLogisticRegression(1.0, 1e-6, adjacency="replace"), 0.03),  # weak coins
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSE)
def test_transcripts_come_close_to_the_promise_and_not_above_it(name):
    make, least = CLOSE[name]
    found, claim = audited(make, pair())
    assert found.leaks == ()
    assert not found.refuted
    assert least * claim.epsilon < found.epsilon <= claim.epsilon


@pytest.mark.slow
def test_replaced_rows_are_two_steps_where_a_row_that_leaves_is_one():
    found, claim = audited(lambda: DPLogisticRegression(1.0, 1e-6), pair(size=2))
    assert (found.refuted, found.epsilon <= claim.epsilon) == (False, True)
    wrong, _ = audited(lambda: DPLogisticRegression(1.0, 1e-6), pair(size=1))
    assert wrong.refuted


@pytest.mark.slow
def test_random_batches_are_read():
    found, claim = audited(sampled, weight_pair())
    assert not found.refuted
    assert 0.8 * claim.epsilon < found.epsilon <= claim.epsilon


def sampled():
    """Return a fit whose weights hardly move, so that the row is clipped in every batch, whatever the noise."""
    return DPSGDClassifier(1.0, 1e-6, steps=100, sampling_rate=0.1, weight_bound=1.0, learning_rate=1e-6)


FAULTS = {
    "halved noise": (planted.halved_noise, default, None),
    "no clip": (planted.no_clip, lambda: default(bounds=(-1, 1)), "sensitivity"),
    "an unpaid release": (planted.unpaid, default, "the report lists 0"),
    "one seed for all fits": (planted.one_seed, default, "are related"),
    "one noise for two releases": (planted.repeated_noise, default, "are related"),
    "uniform noise": (planted.uniform_noise, default, "is not Gaussian"),
    "halved noise on a minimum": (planted.halved_noise, CLOSE["output"][0], None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_the_core_are_caught(name):
    fault, make, words = FAULTS[name]
    with fault():
        found, _ = audited(make, pair())
    assert found.refuted
    assert words is None or any(words in leak for leak in found.leaks), found.leaks
    if words is None:
        assert found.leaks == ()


@pytest.mark.slow
def test_a_batch_that_is_amplified_twice_is_caught():
    with planted.amplified_twice():
        found, _ = audited(sampled, weight_pair())
    assert found.refuted
    assert found.leaks == ()


def persons(fit_groups):
    """Return one person with five rows and others with none to speak of."""
    X, y = np.zeros((N, 2)), np.arange(N) % 2
    person = np.repeat(np.arange(N // 5), 5)
    datas = []
    for label in (1, 0):
        entries, labels = X.copy(), y.copy()
        entries[person == 2], labels[person == 2] = 1e3, label
        datas.append(Data(entries, labels, {"groups": person} if fit_groups else {}))
    return Pair("one person", *datas)


@pytest.mark.slow
def test_rows_that_are_sold_for_persons_are_caught():
    honest, claim = audited(default, persons(fit_groups=True))
    assert (honest.refuted, honest.epsilon <= claim.epsilon) == (False, True)
    sold, _ = audited(default, persons(fit_groups=False))
    assert sold.refuted
    assert any("sensitivity" in leak for leak in sold.leaks)


@pytest.mark.slow
def test_a_threshold_of_discovery_that_is_too_low_is_caught():
    frames = [
        pd.DataFrame({"job": np.where(np.arange(N) % 3, "nurse", "cook"), "age": np.full(N, age)}) for age in (30, 60)
    ]
    two = Pair(
        "an age",
        *(Data(frame.assign(age=frames[0].age.where(frame.index != 3, 90)), np.arange(N) % 2) for frame in frames[:1]),
        Data(frames[0], np.arange(N) % 2),
        2,
    )

    def tabular():
        return DPTabularClassifier(1.0, 1e-6)

    assert not audited(tabular, two)[0].refuted
    with planted.low_threshold():
        found, _ = audited(tabular, two)
    assert any("a value that one unit alone has shows" in leak for leak in found.leaks)


@pytest.mark.slow
def test_a_discovery_of_other_names_is_not_read():
    frame = pd.DataFrame({"job": np.where(np.arange(N) % 3, "nurse", "cook")})
    other = frame.copy()
    other.loc[3, "job"] = "a new one"
    two = Pair("a job", Data(frame, np.arange(N) % 2), Data(other, np.arange(N) % 2), 2)

    def fit(data):
        return DPTabularClassifier(1.0, 1e-6).fit(data.X, data.y)

    (reason,) = read_transcripts(fit, [two], Claim(1.0, 1e-6), error=ERROR, seconds=1.0)
    assert "values were discovered" in reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [planted.counted, planted.refusing, planted.warning, planted.share_of_the_unknown, planted.share_among_noise],
)
def test_facts_that_show_without_noise_are_caught(fault):
    ordinary, long = Data(*lone(1, (1.0, 1.0))), Data(*lone(0))
    claim = Claim.of(default().fit(ordinary.X, ordinary.y).privacy_spent_)

    def fit(data):
        return default().fit(data.X, data.y)

    for pair in (Pair("a long row", ordinary, long), Pair("the other way round", long, ordinary)):
        with fault():
            *_, found = read_transcripts(fit, [pair], claim, error=ERROR, seconds=1.0)
        assert found.refuted
        assert any("although all noisy values are the same" in leak for leak in found.leaks)
        *_, honest = read_transcripts(fit, [pair], claim, error=ERROR, seconds=1.0)
        assert not honest.refuted


def test_what_cannot_be_read_is_said():
    make = lambda: ObjectivePerturbationClassifier(1.0, 1e-6)  # noqa: E731

    def fit(data):
        return make().fit(data.X, data.y)

    (reason,) = read_transcripts(fit, [pair()], Claim(1.0, 1e-6), error=ERROR, seconds=1.0)
    assert "has its noise inside" in reason


@pytest.mark.slow
def test_known_categories_are_read():
    frame = pd.DataFrame({"job": np.where(np.arange(N) % 3, "nurse", "cook")})
    other = frame.copy()
    other.loc[3, "job"] = "cook" if frame.loc[3, "job"] == "nurse" else "nurse"
    two = Pair("a job", Data(frame, np.arange(N) % 2), Data(other, np.arange(N) % 2))
    kinds = {"job": Categories(["nurse", "cook"])}
    found, claim = audited(lambda: DPTabularClassifier(1.0, 1e-6, adjacency="replace", columns=kinds), two)
    assert not found.refuted
    assert 0 < found.epsilon <= claim.epsilon


@pytest.mark.slow
def test_batches_that_hold_more_than_they_promise_are_caught(monkeypatch):
    right = ahead.poisson_sample
    monkeypatch.setattr(ahead, "poisson_sample", lambda n, rate, bits: right(n, 2 * rate, bits))
    found, _ = audited(sampled, weight_pair())
    assert any("where 0.1 is promised" in leak for leak in found.leaks)
