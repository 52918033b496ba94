"""private_score for persons: one vote each, however many rows they have, and intervals that hold for such votes."""

import math

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from contract import Untouchable
from scipy.stats import dlaplace, kstest, multinomial
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from dpsk import BudgetExhausted, Chunks, DPLogisticRegression, PrivacyLedger, PrivateThreshold, private_score
from dpsk.data.grid import SHARE_BITS
from dpsk.model_selection.intervals import (
    _chance,
    rows_population_interval,
    votes_interval,
    votes_population_interval,
)
from dpsk.model_selection.score import Counted
from dpsk.testing import check_twins

ONE = 2**20
SIZES = (1, 2, 3, 7, 50, 1000)


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that says what stands in the first column, and remembers which columns it saw."""

    def __init__(self):
        self.seen = set()

    def predict(self, X):
        self.seen.add(tuple(X.columns) if hasattr(X, "columns") else X.shape[1])
        return np.asarray(X)[:, 0]


def patients(sizes=SIZES, seed=0):
    """Return rows of persons of these sizes, in a random order: their first entry is 1 where Says is right."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(len(sizes)), sizes)
    right = rng.random(len(ids)) < rng.random(len(sizes))[ids]
    order = rng.permutation(len(ids))
    frame = pd.DataFrame({"right": right[order].astype(float), "patient": [f"p{k}" for k in ids[order]]})
    return frame, np.ones(len(ids))


def votes_of(frame):
    return frame.groupby("patient")["right"].mean().to_numpy()


@pytest.fixture(scope="module")
def visits():
    """A model for patients, and their visits."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    frame = pd.DataFrame(rng.normal(size=(len(ids), 3)), columns=["a", "b", "c"]).assign(patient=ids)
    y = (frame["a"] + 0.5 * rng.normal(size=len(ids)) > 0).to_numpy().astype(int)
    return DPLogisticRegression(epsilon=50.0, group_column="patient", random_state=0).fit(frame, y), frame, y


# -------------------------------------------------------------------------------------------------------- the votes


def test_a_person_has_one_vote_which_is_the_part_of_its_rows_that_are_right():
    frame, y = patients()
    expected = votes_of(frame).mean()
    assert abs(expected - frame["right"].mean()) > 0.05, "rows and persons do not agree here"
    for given in ({"group_column": "patient"}, {"groups": frame["patient"]}, {"groups": list(frame["patient"])}):
        score = private_score(Says(), frame, y, epsilon=1e6, **given)
        assert score.accuracy == pytest.approx(expected, abs=1e-3)  # 1,000 rows count .9995
        assert score.interval_on_rows[0] <= expected <= score.interval_on_rows[1]
        assert (score.n_rows, score.n_units) == (sum(SIZES), len(SIZES))
    assert private_score(Says(), frame, y, epsilon=1e6).accuracy == pytest.approx(frame["right"].mean(), abs=1e-5)


def test_one_person_of_a_thousand_rows_moves_the_sum_by_one_vote_at_most():
    frame, y = patients((1000,) + (1,) * 99)
    frame["right"] = 1.0
    frame.loc[frame["patient"] < "p50", "right"] = 0.0
    other = frame.copy()
    other.loc[frame["patient"] == "p0", "right"] = 1.0

    def moved(n_units, **given):
        one, two = (private_score(Says(), X, y, epsilon=1.0, random_state=5, **given) for X in (frame, other))
        assert 0 < one.accuracy < two.accuracy < 1
        return (two.accuracy - one.accuracy) * n_units

    assert 1 - 1000 / ONE <= moved(100, group_column="patient") <= 1
    assert moved(1099) == pytest.approx(1000), "without ids, a person is a thousand votes"


@pytest.mark.thorough
@pytest.mark.slow
def test_the_noise_on_votes_is_that_of_one_person():
    """Kolmogorov-Smirnov at error probability 1e-6; a third of the noise, or three times as much, fails."""
    frame, y = patients((1, 2, 4, 8) * 10)
    votes = votes_of(frame).sum()
    scores = (private_score(Says(), frame, y, epsilon=1.0, group_column="patient") for _ in range(400))
    noise = np.array([score.accuracy * 40 - votes for score in scores])
    assert kstest(noise, "laplace").pvalue > 1e-6
    for factor in (1 / 3, 3.0):
        assert kstest(factor * noise, "laplace").pvalue < 1e-6


def test_the_storage_of_rows_and_of_ids_does_not_matter(visits):
    model, frame, y = visits

    def chunks():
        yield from (frame[start : start + 50] for start in range(0, len(frame), 50))

    expected = private_score(model, frame, y, epsilon=1.0, random_state=1)
    assert (expected.unit, expected.n_units) == ("patient", 60)
    for X in (Chunks(chunks), dd.from_pandas(frame, npartitions=3), pl.from_pandas(frame)):
        assert private_score(model, X, y, epsilon=1.0, random_state=1) == expected
    order = np.random.default_rng(0).permutation(len(y))
    assert private_score(model, frame.iloc[order], y[order], epsilon=1.0, random_state=1) == expected


@pytest.mark.slow
def test_a_whole_person_of_any_rows_is_seen_in_the_noise_only(visits):
    """A row stands for a person here, whose rows are all like it."""
    _, frame, y = visits
    X, sizes = frame[["a", "b", "c"]].to_numpy(), np.arange(len(y)) % 4 + 1
    ids = np.repeat(np.arange(len(y)), sizes)
    model = DPLogisticRegression(epsilon=50.0, random_state=0).fit(X, y)

    def action(X, y):
        X, y = np.repeat(X, sizes, axis=0), np.repeat(y, sizes)
        return private_score(model, X, y, epsilon=0.5, groups=ids)

    check_twins(action, X, y)


# -------------------------------------------------------------------------------------------- where ids come from


def test_the_model_never_sees_the_ids():
    frame, y = patients()
    model = Says()
    private_score(model, frame, y, epsilon=1.0, group_column="patient")
    assert model.seen == {("right",)}


def test_a_model_for_persons_is_scored_by_persons_where_the_table_has_its_ids(visits):
    model, frame, y = visits
    bare, other = frame.drop(columns="patient"), np.arange(len(y)) // 2
    search = GridSearchCV(DPLogisticRegression(epsilon=50.0, group_column="patient"), {"alpha": [1e-2]}, cv=2)
    for known in (model, make_pipeline(model), search.fit(frame, y)):
        for X, given, unit, n in (
            (frame, {}, "patient", 60),
            (frame, {"group_column": "patient"}, "patient", 60),
            (frame, {"groups": other}, "person", other[-1] + 1),
            (bare, {"groups": np.arange(len(y))}, "person", len(y)),
            (bare, {"groups": frame["patient"]}, "person", 60),
            (bare.assign(who=other), {"group_column": "who"}, "who", other[-1] + 1),
        ):
            score = private_score(known, X, y, epsilon=1e6, **given)
            assert (score.unit, score.privacy_spent.unit, score.n_units) == (unit, unit, n)
            if n == len(y):
                assert score.accuracy == pytest.approx(known.score(bare, y), abs=1e-4)
        with pytest.raises(ValueError, match="protects each patient with all rows, but nothing says whose rows"):
            private_score(known, bare, y, epsilon=1e6)


@pytest.mark.parametrize(
    "wrapped",
    [
        FrozenEstimator,
        lambda model: CalibratedClassifierCV(FrozenEstimator(model)),
        lambda model: FrozenEstimator(make_pipeline(FunctionTransformer(), model)),
        lambda model: FrozenEstimator(FrozenEstimator(model)),
    ],
)
def test_a_model_for_persons_inside_of_another_needs_ids_too(visits, wrapped):
    """Without ids the score would protect single rows, and nobody would be told."""
    model, frame, y = visits
    X = frame.drop(columns="patient")
    outer = wrapped(model).fit(X, y)
    with pytest.raises(ValueError, match="protects each patient with all rows, but nothing says whose rows"):
        private_score(outer, Untouchable(), Untouchable(), epsilon=1.0)
    assert private_score(outer, X, y, epsilon=1.0, groups=frame["patient"]).unit == "person"
    alone = DPLogisticRegression().fit(X, y)
    assert private_score(wrapped(alone).fit(X, y), X, y, epsilon=1.0).unit == "row"


def test_a_threshold_for_persons_is_scored_by_persons(visits):
    model, frame, y = visits
    X = frame.drop(columns="patient")
    inner = LogisticRegression().fit(X, y)
    for adjusted in (PrivateThreshold(inner).fit(X, y, groups=frame["patient"]), PrivateThreshold(model)):
        with pytest.raises(ValueError, match="nothing says whose rows"):
            private_score(adjusted, Untouchable(), Untouchable(), epsilon=1.0)
        assert private_score(adjusted.fit(X, y, groups=frame["patient"]), X, y, epsilon=1.0, groups=y).unit == "person"
    assert private_score(PrivateThreshold(inner).fit(X, y), X, y, epsilon=1.0).unit == "row"


def test_steps_in_front_keep_the_column_that_they_were_fitted_with(visits):
    _, frame, y = visits
    steps = make_column_transformer(
        (MinMaxScaler(), ["a", "b", "c"]), remainder="passthrough", verbose_feature_names_out=False
    )
    model = make_pipeline(steps.set_output(transform="pandas"), DPLogisticRegression(50.0, group_column="patient"))
    model.fit(frame, y)
    assert model[-1].privacy_spent_.unit == "patient"
    score = private_score(model, frame, y, epsilon=1e6)
    right = pd.Series(model.predict(frame) == y).groupby(frame["patient"].to_numpy()).mean().mean()
    assert (score.unit, score.n_units) == ("patient", 60)
    assert score.accuracy == pytest.approx(right, abs=1e-4)
    with pytest.raises(ValueError, match=r"cannot be taken out of chunks .*give the ids of the rows as groups"):
        private_score(model, Chunks(lambda: [frame]), y, epsilon=1.0)
    chunked = private_score(model, Chunks(lambda: [frame]), y, epsilon=1e6, groups=frame["patient"])
    assert chunked.accuracy == pytest.approx(right, abs=1e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_column": "patient", "groups": [1, 2]}, "cannot be combined"),
        ({"group_column": "patients"}, "group_column='patients' names no column of X"),
        ({"group_column": 3}, "group_column=3 must be None or the name"),
        ({"group_column": "row"}, "group_column='row'"),
        ({"groups": [1, 2]}, "groups has 2 entries, but X has 1063 rows"),
    ],
)
def test_ids_that_cannot_be_used_are_refused_and_cost_nothing(given, message, tmp_path):
    unit = "patients" if given.get("group_column") == "patients" else "patient"
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0, unit=unit)
    with pytest.raises(ValueError, match=message):
        private_score(Says(), *patients(), epsilon=0.5, ledger=ledger, **given)
    assert ledger.remaining()["epsilon"] == 1.0


# ------------------------------------------------------------------------------------------------- what is promised


def test_the_ledger_and_the_report_have_the_unit(tmp_path):
    frame, y = patients()
    ledger = PrivacyLedger(tmp_path / "patients.db", epsilon=1.0, delta=0, unit="patient")
    score = private_score(Says(), frame, y, epsilon=0.4, group_column="patient", ledger=ledger)
    named = private_score(Says(), frame, y, epsilon=0.4, groups=frame["patient"], ledger=ledger)
    assert score.unit == named.unit == "patient"
    assert ledger.remaining()["epsilon"] == pytest.approx(0.2)
    for statement in (score.statement(), named.statement()):
        for part in ("1063 held-out rows of 6 patients, each patient counting once", "each of these patients"):
            assert part in statement
    with pytest.raises(BudgetExhausted):
        private_score(Says(), Untouchable(), Untouchable(), epsilon=0.4, groups=Untouchable(), ledger=ledger)
    with pytest.raises(ValueError, match="promises too little for one patient"):
        private_score(Says(), Untouchable(), Untouchable(), epsilon=0.1, ledger=ledger)
    rows = PrivacyLedger(tmp_path / "rows.db", epsilon=1.0, delta=0)
    for given in ({"group_column": "patient"}, {"groups": Untouchable()}):
        with pytest.raises(ValueError, match="Keep another ledger"):
            private_score(Says(), Untouchable(), Untouchable(), epsilon=0.1, ledger=rows, **given)


# --------------------------------------------------------------------------------------------------- the intervals


def test_the_bound_on_a_chance_is_the_expectation_over_the_noise():
    """Against a plain sum over all values of the noise: never below, hardly above."""
    for n, p, noisy, one, scale in (
        (20, 0.7, 1180, 64, 30),
        (20, 0.95, 1270, 64, 5),
        (5, 0.3, 200, 64, 64),
        (50, 0.5, 2000, 64, 100),
        (3, 0.01, 10, 64, 4),
        (400, 0.9, 375 * 256, 256, 256),
    ):
        noise = np.arange(-40 * scale, 40 * scale + 1)
        mean = (noisy - noise) / (one * n)
        inside = np.clip(mean, p, 1.0)
        entropy = inside * np.log(inside / p)
        entropy[inside < 1] += (1 - inside[inside < 1]) * np.log((1 - inside[inside < 1]) / (1 - p))
        expected = np.exp(-n * entropy)[mean <= 1] @ dlaplace(1 / scale).pmf(noise)[mean <= 1]
        assert expected <= _chance(p, noisy, n, one, scale) <= 1.05 * expected


def tail(noisy, sums, chances, scale):
    """Return P(sum + noise >= noisy) of sums in steps."""
    return float(chances @ dlaplace(1 / scale).sf(noisy - 1 - sums))


def missed(interval, values, chances, n, scale, error=0.1, one=1000):
    """Return with what chances an interval for the mean lies above and below it, exactly.

    A vote has one of three ``values``, in steps, with these chances.
    """
    mean = values @ chances / one
    counts = [(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)]
    sums, law = np.array(counts) @ values, multinomial(n, chances).pmf(counts)

    def first(above):
        """Return the first noisy sum, from below, for which the answer is yes: it stays so."""
        low, high = 0, n * one + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if above(interval(middle, n, one, scale, error)) else (middle + 1, high)
        return low

    too_high, fair = (
        first(lambda found: found[0] > mean),
        first(lambda found: found[1] >= mean),
    )
    below = 0.0 if fair <= 0 else 1 - tail(fair, sums, law, scale)
    return (0.0 if too_high > n * one else tail(too_high, sums, law, scale)), below


def for_votes(noisy, n, one, scale, error):
    return votes_population_interval(noisy, n, 0, one, scale, error)


VOTES = [
    ((0, 900, 900), (0.945, 0.055, 0.0), 1, 1),  # where a binomial law would miss it
    ((0, 500, 1000), (0.1, 0.3, 0.6), 12, 500),
    ((0, 999, 1000), (0.02, 0.9, 0.08), 20, 100),
    ((0, 10, 1000), (0.5, 0.45, 0.05), 25, 1000),
    ((0, 0, 1000), (0.05, 0.05, 0.9), 30, 200),
    ((700, 700, 700), (0.3, 0.3, 0.4), 9, 3000),
]


@pytest.mark.parametrize(("values", "chances", "n", "scale"), VOTES)
def test_the_interval_misses_the_mean_of_votes_as_seldom_as_it_says(values, chances, n, scale):
    above, below = missed(for_votes, np.array(values), np.array(chances), n, scale)
    assert above <= 0.05
    assert below <= 0.05


def test_a_binomial_law_would_be_no_theorem_for_votes():
    above, _ = missed(rows_population_interval, np.array(VOTES[0][0]), np.array(VOTES[0][1]), 1, 1)
    assert above > 0.0549


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(30, 2.0), (300, 0.5), (300, 0.05)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_intervals_hold_for_persons_of_many_sizes_whose_rows_hang_together(n, epsilon, confidence):
    """By simulation: rows of a person are right together in the main, and large persons are right less often."""
    rng, scale, trials = np.random.default_rng(0), math.ceil((ONE + 2) / epsilon), 300
    law, error = dlaplace(1 / scale), 1 - confidence
    sizes, of_sizes = np.array([1, 3, 20, 400]), np.array([0.4, 0.3, 0.2, 0.1])
    often = np.array([0.95, 0.9, 0.8, 0.5])
    held, widths = np.zeros(2, int), []
    for _ in range(trials):
        kind = rng.choice(4, n, p=of_sizes)
        right = rng.binomial(sizes[kind], rng.beta(often[kind] / 2, (1 - often[kind]) / 2))
        noisy = int((ONE // sizes[kind] * right).sum() + law.rvs(random_state=rng))
        noisy, lost = min(n * ONE, max(0, noisy)), int(sizes[kind].sum()) - n
        low, high = votes_population_interval(noisy, n, lost, ONE, scale, error)
        held[0] += low <= of_sizes @ often <= high
        widths.append(high - low)
        low, high = votes_interval(noisy, n, lost, ONE, scale, error)
        held[1] += low <= (right / sizes[kind]).mean() <= high
    assert (held >= confidence * trials - 3 * math.sqrt(confidence * error * trials)).all()
    assert np.mean(widths) < 2 * (math.sqrt(math.log(2 / error) / (2 * n)) + math.log(2 / error) / (epsilon * n))


@pytest.mark.parametrize(("noisy", "accuracy"), [(-3, 0.0), (7, 0.7), (12, 1.0)])
def test_a_noisy_sum_of_votes_is_cut_off_at_the_number_of_persons(noisy, accuracy):
    one = 2**SHARE_BITS
    assert Counted(noisy * one, n_rows=50, n_units=10, one=one, scale=one).accuracy == accuracy


def test_weights_that_were_rounded_down_are_made_up_for():
    """1,000 rows count 1048 / 2^20 each: all of them together are a little less than one vote."""
    frame, y = patients((1000,) * 5)
    frame["right"] = 1.0
    score = private_score(Says(), frame, y, epsilon=1e6, group_column="patient")
    assert score.accuracy < 1
    assert score.interval_on_rows[1] == score.interval[1] == 1.0
    noisy, lost = round(score.accuracy * 5 * ONE), 5 * 999
    assert votes_interval(noisy, 5, 0, ONE, 2, 0.05)[1] < 1, "unless that is forgotten"
    half = 2**19 + 1  # rows of each of 50 persons, all right: they count one step each, together half a vote
    assert votes_population_interval(50 * half, 50, 50 * (half - 1), ONE, ONE, 0.05)[1] == 1.0
    assert votes_population_interval(50 * half, 50, 0, ONE, ONE, 0.05)[1] < 0.9
    loss = np.array([(ONE % m) / ONE for m in range(1, 3000)])
    assert (loss <= np.arange(2999) / ONE).all(), "a person of m rows loses at most m - 1 steps"
    assert ONE == 2**SHARE_BITS
    assert lost == score.n_rows - score.n_units


def test_the_ends_of_intervals():
    for noisy in (0, 100 * ONE):
        low, high = votes_population_interval(noisy, 100, 300, ONE, 20 * ONE, 0.05)
        assert 0 <= low < high <= 1
        assert (low == 0) if noisy == 0 else (high == 1)
    low, high = votes_population_interval(9 * 10**6 * ONE, 10**7, 10**7, ONE, ONE, 0.05)
    assert 0.8995 < low < 0.9 < high < 0.9005


def test_one_row_for_each_person_has_the_accuracy_of_rows():
    X, y = np.repeat([[1.0], [0.0]], [80, 20], axis=0), np.ones(100)
    rows = private_score(Says(), X, y, epsilon=1e6)
    persons = private_score(Says(), X, y, epsilon=1e6, groups=np.arange(100))
    assert persons.accuracy == pytest.approx(rows.accuracy, abs=1e-5)
    assert persons.interval[0] < rows.interval[0] < rows.interval[1] < persons.interval[1]


@pytest.mark.parametrize("ids", [[None, "a", "b"], [float("nan"), 1.0, 2.0]])
def test_missing_ids_are_one_person(ids):
    X = np.array([[1.0], [1.0], [0.0], [0.0]])
    score = private_score(Says(), X, np.ones(4), epsilon=1e6, groups=[ids[0], ids[0], *ids[1:]])
    assert score.n_units == 3
    assert score.accuracy == pytest.approx(1 / 3, abs=1e-4)
