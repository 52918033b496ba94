"""private_score: exactly the mechanism it says, paid before the rows are touched, and intervals that hold."""

import math

import numpy as np
import pandas as pd
import pytest
from contract import Untouchable
from scipy.stats import binom, chisquare, dlaplace, norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dpsk import BudgetExhausted, DPLogisticRegression, PrivacyLedger, private_score
from dpsk.model_selection.intervals import (
    noise_cdf,
    rows_interval,
    rows_population_interval,
    votes_interval,
    votes_population_interval,
)
from dpsk.privacy import Release

ONE = 2**20


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that says what stands in the first column."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


def rows(right, n):
    X = np.zeros((n, 2))
    X[:right, 0] = 1
    return X, np.ones(n)


def noise_of(score, right):
    """The noise of an accuracy that was not cut off, in grid units."""
    return round(score.accuracy * score.n_rows * ONE) - right * ONE


@pytest.fixture(scope="module")
def half_right():
    """A classifier of dpsk, and 100 rows of which it is right about 50."""
    X = np.random.default_rng(0).random((100, 2))
    model = DPLogisticRegression(epsilon=np.inf).fit(X, X[:, 0] > 0.5)
    return model, X, model.predict(X) ^ (np.arange(100) < 50)


# ------------------------------------------------------------------------------------------------- the mechanism


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "adjacency"), [(0.3, "zero-out"), (1.0, "zero-out"), (2.5, "zero-out"), (1.0, "replace")]
)
def test_the_noise_is_discrete_laplace_of_scale_one_over_epsilon(epsilon, adjacency, half_right):
    """By its distribution; two thirds and three halves of the scale would be noticed."""
    model, X, y = half_right  # which predicts for all rows at once
    scores = (
        private_score(model, X, y, epsilon=epsilon, adjacency=adjacency, random_state=seed) for seed in range(600)
    )
    noise = np.array([noise_of(score, 50) for score in scores])
    edges = np.linspace(0, 1, 13)[1:-1]

    def p_value(factor):
        law = dlaplace(1 / (factor * math.ceil(ONE / epsilon)))
        parts = np.bincount(np.searchsorted(edges, law.cdf(noise)), minlength=12)
        return chisquare(parts).pvalue

    assert p_value(1) > 1e-6
    assert p_value(2 / 3) < 1e-6
    assert p_value(3 / 2) < 1e-6


def test_one_row_changes_no_probability_by_more_than_e_to_epsilon():
    """The probability of every release, for a count and its neighbour, from the law that the test above accepts."""
    for epsilon in (0.3, 1.0, 2.5):
        law = dlaplace(1 / math.ceil(ONE / epsilon))
        k = np.arange(-5 * ONE, 5 * ONE, 997)
        ratio = law.logpmf(k) - law.logpmf(k - ONE)
        assert np.abs(ratio).max() <= epsilon * (1 + 1e-9)
        assert np.abs(ratio).max() > 0.999 * epsilon


def test_it_is_paid_for_with_its_whole_epsilon():
    X, y = rows(5, 10)
    spent = private_score(Says(), X, y, epsilon=0.7).privacy_spent
    assert (spent.epsilon, spent.delta, spent.charged, spent.private) == (0.7, 0.0, 0.7, True)
    assert spent.releases == (Release("successes", 1, 0.7),)


def test_two_scores_differ_and_a_seed_repeats_them():
    X, y = rows(50, 100)
    assert private_score(Says(), X, y, epsilon=1.0) != private_score(Says(), X, y, epsilon=1.0)
    first, second = (private_score(Says(), X, y, epsilon=1.0, random_state=3) for _ in range(2))
    assert first == second
    assert not first.privacy_spent.private
    assert first.statement().startswith("NOT PRIVATE")


def test_a_large_epsilon_gives_the_exact_accuracy(cancer):
    model = DPLogisticRegression(random_state=0).fit(*cancer)
    score = private_score(model, *cancer, epsilon=1e6, confidence=1 - 1e-9)
    assert score.accuracy == pytest.approx(model.score(*cancer), abs=1e-5)
    assert score.interval_on_rows == (model.score(*cancer),) * 2


def test_labels_may_be_anything():
    class Text:
        def predict(self, X):
            return np.array(["abc"[x] for x in X])

    assert private_score(Text(), [0, 1, 2], ["a", "b", "x"], epsilon=1e6).accuracy == pytest.approx(2 / 3, abs=1e-5)
    assert private_score(Text(), [0, 1, 2], np.array([1, 2, 3]), epsilon=1e6).accuracy == pytest.approx(0, abs=1e-5)


# -------------------------------------------------------------------------------------------------- the intervals

CASES = [(20, 0.5, 0.9), (20, 2.0, 0.55), (200, 0.1, 0.9), (200, 1.0, 0.99), (2000, 0.05, 0.7), (50, 1.0, 1.0)]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "p"), CASES)
def test_the_interval_holds_the_accuracy_on_the_population(n, epsilon, p):
    """By simulation: at least as often as it says, but for what 400 trials leave open."""
    rng, scale, trials = np.random.default_rng(0), math.ceil(ONE / epsilon), 400
    law, held, widths = dlaplace(1 / scale), 0, []
    for count in rng.binomial(n, p, trials):
        noisy = min(ONE * n, max(0, ONE * int(count) + int(law.rvs(random_state=rng))))
        low, high = rows_population_interval(noisy, n, ONE, scale, 0.1)
        assert 0 <= low < high <= 1
        held += low <= p <= high
        widths.append(high - low)
    assert held >= binom.ppf(1e-4, trials, 0.9)
    if 0.05 < p < 0.95 and n >= 200:  # nor wider than needed: near the interval of a normal law of both variances
        spread = math.sqrt(p * (1 - p) / n + 2 / (epsilon * n) ** 2)
        assert np.mean(widths) < 1.25 * 2 * norm.ppf(0.95) * spread
        assert held <= binom.ppf(1 - 1e-4, trials, 0.93)


@pytest.mark.slow
def test_the_interval_on_these_rows_holds_as_often_as_it_says_and_hardly_more():
    X, y = rows(140, 200)
    scores = [private_score(Says(), X, y, epsilon=0.2, confidence=0.9) for _ in range(500)]
    held = sum(low <= 0.7 <= high for low, high in (score.interval_on_rows for score in scores))
    assert binom.ppf(1e-5, 500, 0.9) <= held <= binom.ppf(1 - 1e-5, 500, 0.93)
    assert all(
        score.interval[0] <= score.interval_on_rows[0] and score.interval_on_rows[1] <= score.interval[1]
        for score in scores
    )


def test_with_hardly_any_noise_it_is_the_interval_of_clopper_and_pearson():
    from scipy.stats import binomtest

    for count, n in ((0, 30), (3, 30), (29, 30), (30, 30), (700, 1000)):
        exact = binomtest(count, n).proportion_ci(0.95, method="exact")
        # noise below 50 units: the count itself counts as reached from both sides
        low, _ = rows_population_interval(max(0, ONE * count - 50), n, ONE, 1, 0.05)
        _, high = rows_population_interval(min(ONE * n, ONE * count + 50), n, ONE, 1, 0.05)
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-6)


def test_a_count_that_was_cut_off_leaves_intervals_that_reach_to_the_end():
    for noisy, end in ((0, 0.0), (100 * ONE, 1.0)):
        for low, high in (
            rows_population_interval(noisy, 100, ONE, 20 * ONE, 0.05),
            rows_interval(noisy, 100, ONE, 20 * ONE, 0.05),
        ):
            assert 0 <= low < high <= 1
            assert high - low > 0.5
            assert end in (low, high)


def test_an_accuracy_is_never_beyond_its_range():
    scores = [private_score(Says(), *rows(10, 10), epsilon=0.05) for _ in range(40)]
    assert 1.0 in {score.accuracy for score in scores}
    assert all(0 <= score.interval[0] <= score.accuracy <= score.interval[1] <= 1 for score in scores)


def test_the_noise_law_is_that_of_scipy():
    k = np.arange(-40.0, 40.0)
    np.testing.assert_allclose(noise_cdf(k, 7), dlaplace(1 / 7).cdf(k), rtol=1e-12)


def test_the_reach_of_the_rows_interval_is_the_smallest_that_holds():
    for scale, error in ((7, 0.05), (1, 0.3), (100, 0.01)):
        law = dlaplace(1 / scale)
        n = 10**9
        low, high = rows_interval(n // 2, n, 1, scale, error)
        reach = round(high * n) - n // 2
        assert reach == n // 2 - round(low * n)
        assert law.cdf(reach) - law.cdf(-reach - 1) >= 1 - error
        assert reach == 0 or law.cdf(reach - 1) - law.cdf(-reach) < 1 - error


def test_millions_of_rows_are_no_trouble():
    n = 10**7
    low, high = rows_population_interval(9 * n // 10 * ONE, n, ONE, 2 * ONE, 0.05)
    assert 0.8995 < low < 0.9 < high < 0.9005


# ------------------------------------------------------------------------------------------- the ledger, and refusals


def test_it_is_set_aside_before_the_rows_are_touched_and_recorded_once(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X, y = rows(5, 10)
    private_score(Says(), X, y, epsilon=0.7, ledger=ledger)
    (spend,) = ledger.history()
    assert (spend.label, spend.counted) == ("private_score", {"epsilon": 0.7, "delta": 0.0})
    with pytest.raises(BudgetExhausted, match=r"private_score asks for epsilon 0\.7"):
        private_score(Untouchable(), Untouchable(), Untouchable(), epsilon=0.7, ledger=ledger.path)
    with pytest.raises(ValueError, match="would not be private"):
        private_score(Untouchable(), Untouchable(), Untouchable(), epsilon=0.1, ledger=ledger, random_state=0)
    assert len(ledger.history()) == 1


def test_rows_that_cannot_be_scored_cost_nothing(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    X, y = rows(5, 10)
    for labels in (y[:-1], y[:, None], []):
        with pytest.raises(ValueError, match="one label per row"):
            private_score(Says(), X[: len(labels)] if len(labels) == 0 else X, labels, epsilon=0.7, ledger=ledger)
    assert ledger.remaining() == {"epsilon": 1.0, "delta": 0.0}


@pytest.mark.parametrize("currency", ["rho", "mu**2"])
def test_it_has_an_amount_in_every_currency(currency, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-6, currency=currency)
    private_score(Says(), *rows(5, 10), epsilon=0.1, ledger=ledger)
    (spend,) = ledger.history()
    assert spend.counted == spend.reserved
    assert 0 < spend.counted[currency] < 0.02


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"epsilon": 1e-12}, "2\\*\\*56 grid units"),
        ({"confidence": 1.0}, r"confidence=1\.0"),
        ({"confidence": 95}, "confidence=95"),
        ({"adjacency": "add"}, "adjacency='add'"),
        ({"random_state": np.random.default_rng(0)}, "random_state="),
        ({"ledger": 3}, "ledger=3"),
    ],
)
def test_bad_parameters_are_refused_before_the_rows_are_touched(bad, message):
    with pytest.raises(ValueError, match=message):
        private_score(Untouchable(), Untouchable(), Untouchable(), **{"epsilon": 1.0, **bad})


def test_the_statement_says_what_the_interval_is_for():
    statement = private_score(Says(), *rows(80, 100), epsilon=1.0).statement()
    for part in ("100 held-out rows", "(1, 0)-differential privacy", "population", "0.95 confidence", "add to it"):
        assert part in statement


def test_what_cannot_be_scored_is_refused_and_costs_nothing(tmp_path):
    """All that is refused is public: the model, the columns, the number of rows, the types of labels."""
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-6)
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    model = LogisticRegression().fit(X, y)
    for thing, rows, labels, message in (
        (LinearRegression().fit(X, y), X, y, "takes a fitted classifier"),
        (LogisticRegression, X, y, "takes a fitted classifier"),
        (None, X, y, "takes a fitted classifier: NoneType cannot predict"),
        (LogisticRegression(), X, y, "not fitted"),
        (DPLogisticRegression(), X, y, "not fitted"),
        (model, X, np.array(["no", "yes"])[y], "are they coded differently"),
        (model, X[:, :2], y, "X has 2 features, but LogisticRegression is expecting 3"),
        (
            make_pipeline(FunctionTransformer(validate=True), DPLogisticRegression(epsilon=9.0)).fit(X, y),
            X[:, :1],
            y,
            "1 feat",
        ),
        (model, X[1:], y, r"X has 199 rows and y the shape \(200,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            private_score(thing, rows, labels, epsilon=0.1, ledger=ledger)
    assert ledger.remaining() == {"epsilon": 1.0, "delta": 1e-6}


def test_an_error_about_the_type_of_labels_does_not_tell_how_long_they_are():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = DPLogisticRegression(epsilon=50.0).fit(X, y)
    told = set()
    for label in ("no", "a label that is longer than all others"):
        with pytest.raises(ValueError, match="the labels in y are text") as caught:
            private_score(model, X, np.array([label] + ["yes"] * 39), epsilon=1.0)
        told.add(str(caught.value))
    assert len(told) == 1


def test_columns_that_a_pipeline_wants_by_name_are_asked_for_before_anything_is_paid(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=0)
    frame = pd.DataFrame({"kind": ["a", "b"] * 50, "age": np.arange(100.0), "other": 1.0})
    front = make_column_transformer((OneHotEncoder(categories=[["a", "b"]]), ["kind"]), ("passthrough", ["age"]))
    model = make_pipeline(front, DPLogisticRegression(epsilon=50.0)).fit(frame, frame["age"] > 50)
    for rows, message in (
        (frame.drop(columns="kind"), r"X lacks columns that the estimator was fitted on: \['kind'\]"),
        (frame.to_numpy(), "X has no names of columns"),
    ):
        with pytest.raises(ValueError, match=message):
            private_score(model, rows, frame["age"] > 50, epsilon=0.5, ledger=ledger)
    private_score(model, frame.drop(columns="other"), frame["age"] > 50, epsilon=0.5, ledger=ledger)
    assert ledger.remaining()["epsilon"] == 0.5


@pytest.mark.parametrize(
    "interval", [rows_interval, rows_population_interval, votes_interval, votes_population_interval]
)
def test_chances_that_underflow_are_0_and_no_error(interval):
    """All that goes in was released, so to compute with it in silence hides nothing and tells nothing."""
    lost = (5,) if "votes" in interval.__name__ else ()
    given = (90_000, 1000, *lost, 100, 20, 0.05)
    expected = interval(*given)
    with np.errstate(all="raise"):
        assert interval(*given) == expected
