import copy
import dataclasses
import operator
import pickle

import numpy as np
import pytest

from dpsk.data import ArrayRows, PrivateData, Query, RowMap, Sealed
from dpsk.losses import Logistic, Softmax
from dpsk.mechanisms import ArgMin, Gaussian, Laplace, NoisyMin, SeededBits, Sensitivity, SystemBits
from dpsk.privacy import ZCDP, Budget, BudgetExhausted, Ledger, PureDP
from dpsk.queries import GradientSum, LossesAlong
from dpsk.testing import check_query


def make_data(epsilon=1.0, bits=None, adjacency="zero-out", budget=None, n=50):
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n))
    ledger = Ledger(budget or Budget.of(epsilon, 1e-6))
    return PrivateData(rows, ledger, bits or SeededBits(1), adjacency=adjacency)


def gradient(w=None):
    return GradientSum(Logistic(), np.zeros(4) if w is None else w, clip=1.0)


def line(count=5):
    return LossesAlong(Logistic(), np.zeros(4), np.ones(4), range(count), clip=3.0)


class CountingBits:
    """Seeded bits that tell how many bytes were drawn."""

    def __init__(self):
        self.source, self.taken, self.private = SeededBits(0), 0, False

    def take(self, n_bytes):
        self.taken += n_bytes
        return self.source.take(n_bytes)


USES = {
    "float": float,
    "int": int,
    "complex": complex,
    "bool": bool,
    "round": round,
    "abs": abs,
    "len": len,
    "iter": iter,
    "list": list,
    "index": operator.index,
    "getitem": lambda s: s[0],
    "contains": lambda s: 1 in s,
    "format": lambda s: f"{s:.3f}",
    "equal": lambda s: s == s,
    "not equal": lambda s: s != 0,
    "less": lambda s: s < 1,
    "less or equal": lambda s: s <= 1,
    "greater": lambda s: s < 1,
    "greater or equal": lambda s: s >= 1,
    "minus": lambda s: s - s,
    "public minus": lambda s: 1 - s,
    "times": lambda s: s * 2,
    "public times": lambda s: 2 * s,
    "divide": lambda s: s / 2,
    "matmul": lambda s: s @ np.ones(4),
    "negate": operator.neg,
    "hash": hash,
    "asarray": np.asarray,
    "array": np.array,
    "sum": np.sum,
    "exp": np.exp,
    "ufunc": lambda s: np.multiply(s, 2),
    "array times": lambda s: np.ones(4) * s,
    "isfinite": np.isfinite,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "sealed plus sealed": lambda s: s + s,
}


@pytest.mark.parametrize("use", USES)
def test_a_sealed_value_refuses_to_be_read(use):
    with pytest.raises(TypeError):
        USES[use](make_data().measure(gradient()))


def test_the_repr_of_a_sealed_value_tells_nothing_but_its_label():
    assert repr(make_data().measure(gradient())) == str(make_data().measure(gradient())) == "Sealed('gradient')"


def test_what_a_sealed_value_shows_is_public():
    public = {name for name in dir(Sealed) if not name.startswith("_")}
    assert public == {"label", "sensitivity", "shape", "unit"}
    one, other = make_data(n=50).measure(gradient()), make_data(n=60).measure(gradient())
    assert (one.label, one.sensitivity, one.unit) == (other.label, other.sensitivity, other.unit)


@pytest.mark.parametrize("order", ["sealed + public", "public + sealed"])
def test_a_public_shift_moves_what_is_released_and_nothing_else(order):
    shift = np.array([1.0, -2.0, 0.0, 1e6])
    released = []
    for amount in (np.zeros(4), shift):
        data = make_data()
        sealed = data.measure(gradient())
        shifted = sealed + amount if order == "sealed + public" else amount + sealed
        assert shifted.sensitivity == sealed.sensitivity
        released.append(data.release(shifted, Gaussian(0.1)))
    np.testing.assert_allclose(released[1] - released[0], shift, rtol=0, atol=1e-9)


def test_shifts_add_up():
    results = []
    for shifts in ([3.0], [1.0, 2.0]):
        data = make_data()
        sealed = data.measure(gradient())
        for shift in shifts:
            sealed = sealed + shift
        results.append(data.release(sealed, Gaussian(0.1)))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("shape", [(100, 4), (4, 1), (1,), (5,)])
def test_a_shift_does_not_broadcast(shape):
    """100 copies of one statistic would be 100 releases at one price."""
    with pytest.raises(ValueError, match="must have its shape"):
        make_data().measure(gradient()) + np.zeros(shape)


def test_shifts_are_bounded_in_all():
    sealed = make_data().measure(gradient())
    most = 2.0**59.5 * sealed.unit
    with pytest.raises(ValueError, match="in all"):
        sealed + most + most


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_shift_must_be_finite(bad):
    with pytest.raises(ValueError, match="shifts of 'gradient' must be finite"):
        make_data().measure(gradient()) + bad


@pytest.mark.slow
def test_release_adds_the_noise_that_was_paid_for():
    """Mean and spread of many releases, against the true sum and sigma = clip/mu; error probability below 1e-6."""
    data = make_data(epsilon=300.0, n=50)
    query, mu, repeats = gradient(), 0.05, 2000
    released = np.array([data.release(data.measure(query), Gaussian(mu)) for _ in range(repeats)])
    true = data._rows.total(query) * query.unit
    sigma = 1.0 / mu
    assert np.abs(released.mean(axis=0) - true).max() < 5.5 * sigma / np.sqrt(repeats)
    spread = released.std(axis=0) / sigma
    assert np.abs(spread - 1).max() < 5.5 / np.sqrt(2 * repeats)


def test_each_release_is_charged_at_its_mechanism_s_price():
    data = make_data()
    data.release(data.measure(gradient()), Gaussian(0.01))
    data.release(data.measure(gradient()), Gaussian(0.01))
    data.release(data.measure(line()), ArgMin(0.02))
    report = data.report()
    listed = [(release.label, release.count, release.cost) for release in report.releases]
    gradients, losses = listed
    assert gradients == ("gradient", 2, 0.01**2 / 2)
    assert losses == ("losses", 1, pytest.approx(0.02**2 / 8, rel=1e-11))
    assert losses[2] >= 0.02**2 / 8
    assert report.charged == pytest.approx(0.01**2 + 0.02**2 / 8, rel=1e-12)


def test_nothing_is_drawn_when_the_price_does_not_fit():
    bits = CountingBits()
    data = make_data(bits=bits)
    sealed = data.measure(gradient())
    before = data.remaining
    for attempt in (Gaussian(10.0), Laplace(50.0)):
        with pytest.raises(BudgetExhausted, match="asks for"):
            data.release(sealed, attempt)
    assert bits.taken == 0
    assert data.remaining == before


def test_nothing_is_spent_on_a_release_that_is_refused_for_another_reason():
    bits = CountingBits()
    data = make_data(bits=bits)
    before = data.remaining
    sealed = data.measure(gradient())
    attempts = [
        (ValueError, sealed, Gaussian(1e-15)),  # noise beyond the grid
        (ValueError, make_data().measure(gradient()), Gaussian(0.1)),  # measured on other data
        (TypeError, np.zeros(4), Gaussian(0.1)),
        (TypeError, sealed, lambda value, sensitivity, bits: value),
    ]
    for error, what, mechanism in attempts:
        with pytest.raises(error):
            data.release(what, mechanism)
    assert bits.taken == 0
    assert data.remaining == before


def test_a_function_dressed_up_as_a_mechanism_or_query_is_refused():
    def peek(value, sensitivity=None, bits=None):
        return value

    peek.cost, peek.check = Gaussian(1.0).cost, lambda sensitivity: None
    peek.unit, peek.label, peek.sensitivity = 1.0, "peek", lambda adjacency: Sensitivity(1, 1, 1)
    data = make_data()
    with pytest.raises(TypeError, match="Mechanism"):
        data.release(data.measure(gradient()), peek)
    with pytest.raises(TypeError, match="measure of PrivateData takes a Statistic, not function"):
        data.measure(peek)


def test_what_remains_can_be_spent_exactly_once():
    data = make_data()
    data.release(data.measure(gradient()), Gaussian(0.01))
    rest = data.remaining
    data.release(data.measure(gradient()), Gaussian.priced(rest, data.currency))
    assert 0 <= data.remaining < 1e-9 * rest
    with pytest.raises(BudgetExhausted):
        data.release(data.measure(gradient()), Gaussian(0.001))


def test_a_mechanism_without_a_price_in_the_currency_is_refused():
    data = make_data(budget=Budget.of(1.0, 0.0))
    assert isinstance(data.currency, PureDP)
    with pytest.raises(ValueError, match="GaussianCost may have no price"):
        data.release(data.measure(gradient()), Gaussian(0.1))
    data.release(data.measure(line()), NoisyMin(0.5))
    assert data.report().charged == 0.5


def test_adjacency_reaches_the_sensitivity():
    zero_out, replace = make_data().measure(line()), make_data(adjacency="replace").measure(line())
    assert zero_out.sensitivity.monotone
    assert not replace.sensitivity.monotone
    with pytest.raises(ValueError, match="adjacency='swap'"):
        make_data(adjacency="swap")


def test_the_report_says_whether_the_bits_were_secret():
    assert not make_data(bits=SeededBits(0)).report().private
    assert make_data(bits=SystemBits()).report().private


def test_the_same_seed_gives_the_same_release_and_the_system_never_does():
    def release(bits):
        data = make_data(bits=bits)
        return data.release(data.measure(gradient()), Gaussian(0.1))

    np.testing.assert_array_equal(release(SeededBits(3)), release(SeededBits(3)))
    assert not np.array_equal(release(SeededBits(3)), release(SeededBits(4)))
    assert not np.array_equal(release(SystemBits()), release(SystemBits()))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_private_data_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(make_data())


def test_public_facts():
    data = make_data(n=50)
    assert (data.n_rows, data.n_features, data.n_parameters) == (50, 3, 4)
    assert data.currency == ZCDP()
    assert data.portion(10) == pytest.approx(data.remaining / 10)


def test_a_query_for_weights_of_another_size_spends_nothing():
    data = make_data()
    with pytest.raises(ValueError, match=r"weights have shape \(7,\), but these data need \(4,\)"):
        data.measure(gradient(np.zeros(7)))


def test_weights_of_another_shape_are_refused_by_their_shape():
    rows = ArrayRows(np.ones((3, 3)), np.array([0, 1, 2]), RowMap(n_classes=3))
    data = PrivateData(rows, Ledger(Budget.of(1.0, 1e-6)), SeededBits(0))
    for loss, shape in ((Logistic(), (4, 1)), (Softmax(3), (4,)), (Softmax(3), (4, 2))):
        with pytest.raises(ValueError, match="takes weights of shape"):
            GradientSum(loss, np.zeros(shape), clip=1.0)
    for query in (gradient(), GradientSum(Softmax(2), np.zeros((4, 2)), clip=1.0)):
        with pytest.raises(ValueError, match="these data need"):
            data.measure(query)


@dataclasses.dataclass(frozen=True)
class Careless(Logistic):
    """A loss that returns what no loss should, for some rows."""

    what: float = np.nan

    def slope(self, margin):
        return np.where(margin > 0.5, self.what, super().slope(margin))

    def phi(self, margin):
        return np.where(margin > 0.5, self.what, super().phi(margin))


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf, 1e300])
def test_one_row_is_bounded_whatever_a_loss_returns(what):
    for query in (
        GradientSum(Careless(what), np.ones(5), clip=1.0),
        LossesAlong(Careless(what), np.ones(5), np.ones(5), range(3), clip=3.0),
    ):
        check_query(query, n_features=4, trials=30)


def test_floating_point_errors_of_some_row_stay_inside():
    """Whether a row overflows must not be visible, not even where the caller turns such warnings into errors."""
    rows = ArrayRows(np.array([[1e300], [1e-300]]), np.array([0, 1]), RowMap(n_classes=2))
    data = PrivateData(rows, Ledger(Budget.of(1.0, 1e-6)), SeededBits(0))
    with np.errstate(all="raise"):
        for query in (
            GradientSum(Softmax(2), np.full((2, 2), [1e90, -1e90]), clip=1e-20),
            LossesAlong(Softmax(2), np.zeros((2, 2)), np.full((2, 2), [1e90, -1e90]), [0, 1e17], clip=3.0),
        ):
            mechanism = Gaussian(0.01) if isinstance(query, GradientSum) else ArgMin(0.01)
            data.release(data.measure(query), mechanism)
    with pytest.raises(ValueError, match="multiples"):
        LossesAlong(Softmax(2), np.zeros((2, 2)), np.ones((2, 2)), [0, 1e300], clip=3.0)


def test_a_choice_is_made_along_one_axis_only():
    rows = ArrayRows(np.ones((3, 3)), np.array([0, 1, 2]), RowMap(n_classes=3))
    data = PrivateData(rows, Ledger(Budget.of(1.0, 1e-6)), SeededBits(0))
    sealed = data.measure(GradientSum(Softmax(3), np.zeros((4, 3)), clip=1.0))
    for mechanism in (ArgMin(0.01), NoisyMin(0.01)):
        with pytest.raises(ValueError, match="one axis"):
            data.release(sealed, mechanism)
    assert data.report().charged == 0


def test_what_a_query_shows_cannot_be_written_to():
    query = line()
    for array in (query.points, gradient().w):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    multiples = np.arange(3.0)
    kept = LossesAlong(Logistic(), np.zeros(4), np.ones(4), multiples, clip=3.0)
    multiples[1] = 100.0
    assert np.abs(kept.points).max() <= 2


@pytest.mark.parametrize("size", [0, -5, 2.5, True, "10"])
def test_batch_sizes_are_validated(size):
    with pytest.raises(ValueError, match="size="):
        make_data().batch(size)


def test_every_query_is_a_query():
    assert all(issubclass(kind, Query) for kind in (GradientSum, LossesAlong))
    assert dataclasses.is_dataclass(Gaussian)
