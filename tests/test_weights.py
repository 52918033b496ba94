"""Rows with weights: exact sums, and persons who move them no further than one row does."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import dpsk.queries.hessian
from dpsk.data import ArrayRows, Columns, Door, NoisyQuery, PrivateData, Query, RawRows, RowMap, StoredRows, schema_of
from dpsk.data.frame_tables import in_memory
from dpsk.data.grid import SHARE_BITS, UNIT_BITS
from dpsk.data.persons import Persons
from dpsk.data.tables import StoredTable
from dpsk.data.weights import (
    MOST_ROWS,
    ONE,
    Weights,
    finer_sensitivity,
    in_parts,
    joined,
    kept_bits,
    on_finer_grid,
    products,
    steps_of,
)
from dpsk.encodings.weighting import Weighed
from dpsk.losses import HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax
from dpsk.mechanisms import Gaussian
from dpsk.mechanisms.mechanism import Sensitivity
from dpsk.mechanisms.randomness import SeededBits
from dpsk.minimizers import PerturbedMinima
from dpsk.networks import Network
from dpsk.privacy import Budget, GaussianCost, GaussianDP, Sampling
from dpsk.privacy.ledger import Ledger
from dpsk.queries import (
    ArmijoGains,
    ClassCounts,
    GradientSum,
    HessianSum,
    LossesAlong,
    Magnitudes,
    Middles,
    Moments,
    NetworkGains,
    NetworkGradient,
    NetworkLosses,
    Outcomes,
    Positions,
    PositionsOfSome,
    RowNorms,
    Successes,
)
from dpsk.queries.network_gradient import MOST_ROWS as MOST_ROWS_OF_NETWORKS
from dpsk.testing import check_weights

D = 4
W = np.random.default_rng(1).normal(size=D + 1)
W3 = np.random.default_rng(2).normal(size=(D + 1, 3))
NETWORK = Network.dense(D, [6, 5], 3)
START, STEP = NETWORK.start(0), NETWORK.start(1)
PLACED = RowMap(fit_intercept=False, columns=Columns.within(-1.0, 1.0, D))


def raw(X, y, weights):
    return RawRows(X, weights=weights)


def placed(X, y, weights):
    return ArrayRows(X, y, PLACED, weights)


def first_column(X, y, weights):
    return RawRows(X[:, :1], weights=weights)


QUERIES = {
    "gradient": (GradientSum(Logistic(), W, clip=0.7), {}),
    "gradient of a concave loss": (GradientSum(Sigmoid(), W, clip=3.0), {}),
    "softmax": (GradientSum(Softmax(3), W3, clip=1.3), {"n_classes": 3}),
    "network": (NetworkGradient(NETWORK, Softmax(3), NETWORK.start(0), clip=1.3), {"n_classes": 3}),
    "network, gains": (NetworkGains(NETWORK, Softmax(3), START, STEP, [0.1, 1.0], clip=1.3), {"n_classes": 3}),
    "network, gains, clipped": (
        NetworkGains(NETWORK, Softmax(3), START, STEP, [0.1, 1.0], clip=1.3, per_unit=False),
        {"n_classes": 3},
    ),
    "network, losses": (NetworkLosses(NETWORK, Softmax(3), START, STEP, [0.0, 1.0], clip=1.3), {"n_classes": 3}),
    "Hessian": (HessianSum(Logistic(), W, clip=0.5), {}),
    "Hessian, 3 classes": (HessianSum(OneVsRest(Sigmoid(), 3), W3, clip=0.5), {"n_classes": 3}),
    "losses": (LossesAlong(Logistic(), W, W, [0.0, 1.0, 2.0], clip=1.0), {}),
    "losses, 3 classes": (LossesAlong(Softmax(3), W3, W3, [0.0, 0.5], clip=1.0), {"n_classes": 3}),
    "gains": (ArmijoGains(Logistic(), W, W, [0.1, 1.0], clip=1.0), {}),
    "gains, clipped": (ArmijoGains(HuberHinge(), W, W, [0.1, 1.0], clip=1.0, per_unit=False), {}),
    "moments": (Moments(D, clip=1.0), {"make_rows": placed}),
    "middles": (Middles(D, clip=0.3), {"make_rows": placed}),
    "row norms": (RowNorms(), {}),
    "norms of raw rows": (RowNorms(), {"make_rows": raw}),
    "magnitudes": (Magnitudes(D, 2.0), {"make_rows": raw}),
    "positions of some": (PositionsOfSome(D, np.arange(1), -np.ones(1), np.ones(1)), {"make_rows": raw}),
    "magnitudes, l1": (Magnitudes(D, 2.0, norm="l1"), {"make_rows": raw}),
    "positions": (Positions(D, 2.0, np.full(D, -1.0), np.full(D, 2.0)), {"make_rows": raw}),
    "successes": (Successes(), {"make_rows": first_column, "n_features": 2}),
    "outcomes": (Outcomes(W, np.linspace(-8, 8, 9)), {}),
    "outcomes, 3 classes": (Outcomes(W3, np.linspace(-8, 8, 9)), {"n_classes": 3}),
    "class counts": (ClassCounts(3), {"n_classes": 3}),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_person_moves_a_sum_no_further_than_one_row_does(name):
    query, options = QUERIES[name]
    check_weights(query, **{"n_features": D, **options})


def reached(query, make_rows, rows, X, y):
    """Return the part of the promise that a person with so many equal rows reaches."""
    weights = Weights(Persons(np.zeros(rows, dtype=np.int32), 1).weights)
    total = make_rows(np.repeat(X, rows, axis=0), np.repeat(y, rows), weights).total(query)
    promised = query.sensitivity("zero-out")
    bits = kept_bits(promised)
    size = math.sqrt(sum(int(v) ** 2 for v in on_finer_grid(total, bits).ravel()))
    return size / finer_sensitivity(promised, bits, total[0].size).l2


@pytest.mark.parametrize("rows", [1, 7, 1000, 10_000])
@pytest.mark.parametrize("name", ["gradient", "row norms", "class counts", "outcomes", "moments", "successes"])
def test_a_person_counts_as_much_as_one_row(name, rows):
    """Within 1 %, up to 10,000 rows: weights are at least 104 steps, so that rounding takes less than 1 of 105."""
    query = {"gradient": GradientSum(Logistic(), np.zeros(D + 1), clip=0.7), "class counts": ClassCounts(2)}.get(
        name, QUERIES[name][0]
    )
    make_rows = {"moments": placed, "successes": first_column}.get(
        name, lambda X, y, weights: ArrayRows(X, y, RowMap(), weights)
    )
    assert 0.99 < reached(query, make_rows, rows, np.ones((1, D)) * 3, np.array([1.0])) <= 1


class ByTheirRoots(GradientSum):
    """Equal rows of a person would add up to the root of their number."""

    def __call__(self, chunk):
        chunk.weights = np.floor(np.sqrt(chunk.weights * ONE))
        return super().__call__(chunk)


class WeighsBeforeClipping(GradientSum):
    def __call__(self, chunk):
        chunk.scale = chunk.scale * (chunk.weights / ONE)
        chunk.weights = np.full(len(chunk), float(ONE))
        return super().__call__(chunk)


class RoundsToTheNearest(HessianSum):
    """Rows that count less than half a step each would count a whole one."""

    def __call__(self, chunk):
        weights, chunk.weights = chunk.weights, None
        parts = [super(RoundsToTheNearest, self).__call__(chunk.take(np.array([i]))) for i in range(len(chunk))]
        scaled = sum(np.sign(v) * -(-np.abs(v) * int(k) // ONE) for v, k in zip(parts, weights, strict=True))
        chunk.weights = weights
        return in_parts(scaled * ONE)


class TellsNothing(GradientSum):
    weighed = False


@pytest.mark.parametrize("broken", [ByTheirRoots, WeighsBeforeClipping])
def test_wrong_weights_are_noticed(broken):
    with pytest.raises(AssertionError):
        check_weights(broken(Logistic(), W, clip=0.7), n_features=D)


def test_rounding_up_is_noticed():
    with pytest.raises(AssertionError):
        check_weights(RoundsToTheNearest(Logistic(), W, clip=0.5), n_features=D)


def test_weights_that_are_not_normalised_are_noticed(monkeypatch):
    monkeypatch.setattr(Persons, "weights", property(lambda self: np.full(len(self.codes), ONE, dtype=np.int32)))
    with pytest.raises(AssertionError):
        check_weights(GradientSum(Logistic(), W, clip=0.7), n_features=D)


def test_a_query_that_does_not_speak_of_weights_is_refused():
    with pytest.raises(AssertionError, match="weighed"):
        check_weights(TellsNothing(Logistic(), W, clip=0.7), n_features=D)
    with pytest.raises(TypeError, match="persons, class_weight and sample_weight"):
        private(*data(20)).measure(TellsNothing(Logistic(), W, clip=0.7))


def data(n, seed=0, persons=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * np.exp(3 * rng.normal(size=(n, 1)))
    X[rng.random((n, D)) < 0.5] = 0
    codes = np.unique((rng.pareto(0.7, size=n) * 3).astype(int) % 200, return_inverse=True)[1].astype(np.int32)
    known = Persons(codes, int(codes.max()) + 1)
    return X, rng.choice([-1.0, 1.0], n), Weights(known.weights, known)


def private(X, y, weights, budget=1.0):
    ledger = Ledger(Budget(math.inf, 1e-6, GaussianDP(), budget))
    return PrivateData(ArrayRows(X, y, RowMap(), weights), ledger, SeededBits(0))


@pytest.mark.parametrize("name", [name for name, (_, options) in QUERIES.items() if not options])
def test_every_storage_has_the_same_bits(name):
    query, _ = QUERIES[name]
    X, y, weights = data(3000)
    expected = ArrayRows(X, y, RowMap(), weights).total(query)
    assert np.any(expected)
    order = np.random.default_rng(3).permutation(len(y))
    for other in (
        ArrayRows(sp.csr_matrix(X), y, RowMap(), weights),
        ArrayRows(np.asfortranarray(X), y, RowMap(), weights, chunk_rows=77),
        StoredRows([X[:1000], X[1000:]], y, RowMap(), weights, on_disk=True),
        StoredRows([sp.csr_matrix(X)], y, RowMap(), weights, on_disk=False),
        ArrayRows(X[order], y[order], RowMap(), Weights(weights.steps[order])),
    ):
        assert np.array_equal(_whole(other.total(query)), _whole(expected))


LONG = 20_000  # rows of one chunk: queries that work on some of them at a time do so more than once


@pytest.mark.parametrize("name", [name for name, (_, o) in QUERIES.items() if o.keys() <= {"n_classes"}] + ["moments"])
def test_rows_of_a_long_chunk_have_weights_of_their_own(name):
    query, options = QUERIES[name]
    (X, y, weights), n_classes = data(LONG), options.get("n_classes")
    y = y if n_classes is None else np.arange(LONG) % n_classes
    how = PLACED if name == "moments" else RowMap(n_classes)
    long, short = (ArrayRows(X, y, how, weights, chunk_rows=rows) for rows in (LONG, 999))
    assert np.array_equal(_whole(long.total(query)), _whole(short.total(query)))


@pytest.mark.parametrize("name", [name for name, (_, options) in QUERIES.items() if options.get("make_rows") is raw])
def test_raw_rows_have_the_same_weights_in_one_block_and_in_several(name):
    query, (X, _, weights) = QUERIES[name][0], data(3000)
    expected = RawRows(X, weights=weights).total(query)
    for cut in (lambda X: [X[:1000], X[1000:]], lambda X: [sp.csr_matrix(X[:100]), sp.csr_matrix(X[100:])]):
        assert np.array_equal(_whole(RawRows(*cut(X), weights=weights).total(query)), _whole(expected))
    some = np.arange(0, weights.n_units, 2)
    expected = RawRows(X, weights=weights).subset(some).total(query)
    parts = RawRows(*np.array_split(X, 20), weights=weights).subset(some)  # so many that they are joined
    assert np.array_equal(_whole(parts.total(query)), _whole(expected))


@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
def test_rows_that_are_drawn_from_many_chunks_keep_their_weights(made):
    """Short chunks are joined."""
    (X, y, weights), query = data(3000), QUERIES["gradient"][0]
    some = np.arange(0, weights.n_units, 2)
    whole, parts = (ArrayRows(made(X), y, RowMap(), weights, chunk_rows=rows).subset(some) for rows in (3000, 100))
    assert np.array_equal(_whole(parts.total(query)), _whole(whole.total(query)))


def test_a_table_in_files_counts_its_raw_rows_by_persons():
    X, y, weights = data(300)
    table = StoredTable([X[:100], X[100:]], y)
    table.persons = weights.persons
    assert table.raw().persons is weights.persons
    assert table.raw().n_rows == weights.n_units
    expected = RawRows(X, weights=weights).total(RowNorms())
    assert np.array_equal(_whole(table.raw().total(RowNorms())), _whole(expected))


def _whole(parts):
    return parts[0].astype(object) * ONE + parts[1].astype(object)


@pytest.mark.parametrize("name", [name for name, (_, options) in QUERIES.items() if not options])
def test_weights_of_one_give_the_sum_without_weights(name):
    query, _ = QUERIES[name]
    X, y, _ = data(500)
    full = ArrayRows(X, y, RowMap(), Weights(np.full(500, ONE, dtype=np.int32))).total(query)
    assert np.array_equal(full[0], ArrayRows(X, y, RowMap()).total(query))
    assert not full[1].any()


def test_some_rows_of_persons_are_all_rows_of_some_persons():
    X, y, weights = data(2000)
    persons = weights.persons
    chosen = np.random.default_rng(0).permutation(persons.n)[: persons.n // 2]
    query = QUERIES["gradient"][0]
    for rows in (ArrayRows(X, y, RowMap(), weights), StoredRows([X], y, RowMap(), weights, on_disk=True)):
        some = rows.subset(chosen)
        there = np.flatnonzero(np.isin(persons.codes, chosen))
        expected = ArrayRows(X[there], y[there], RowMap(), Weights(weights.steps[there])).total(query)
        assert some.n_rows == len(chosen)
        assert np.array_equal(_whole(some.total(query)), _whole(expected))


def test_batches_hold_whole_persons():
    """A person that is split over batches would be amplified twice."""
    _, y, weights = data(2000)
    persons = weights.persons
    rows = ArrayRows(np.arange(2000.0)[:, None] % 7 + 1, y, RowMap(), weights)
    door = PrivateData(rows, Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1.0)), SeededBits(0))
    seen = []
    for _ in range(3):
        batch = door.batch(persons.n // 3)
        assert batch.n_rows == batch.n_units == persons.n // 3
        seen.append(sum(len(chunk) for chunk in batch._rows._chunks()))
        total = sum(chunk.weights.sum() for chunk in batch._rows._chunks()) / ONE
        assert total <= persons.n // 3
        assert total > 0.99 * (persons.n // 3)
    assert len(set(seen)) > 1  # numbers of rows differ, numbers of persons do not


def test_what_is_measured_of_persons_is_on_a_finer_grid_where_rows_are_whole_steps():
    X, y, weights = data(300)
    sealed = private(X, y, weights).measure(RowNorms())
    assert sealed.unit == 2.0**-SHARE_BITS
    assert sealed.sensitivity == Sensitivity(
        l1=math.nextafter(ONE, math.inf), l2=math.nextafter(ONE, math.inf), linf=ONE, monotone=True
    )
    door = private(X, y, weights, 1e12)
    counts = door.release(door.measure(RowNorms()), Gaussian(1e5))
    assert counts.sum() == pytest.approx(weights.persons.n, abs=0.05)


def test_a_weight_that_is_known_takes_the_place_of_the_number_of_units():
    X, y, weights = data(300)
    ledger = Ledger(Budget(math.inf, 1e-6, GaussianDP(), 1.0))
    data_ = Door(ledger, SeededBits(0), "zero-out").open(ArrayRows(X, y, RowMap(), weights), weight=12.5)
    assert data_.n_rows == 12.5
    assert data_.n_units == weights.persons.n
    assert data_.batch(weights.persons.n) is data_
    assert data_.batch(weights.persons.n - 1) is not data_, "more than all rows weigh, and not all persons"
    half = data_.batch(weights.persons.n // 2)
    assert half.n_rows == pytest.approx(12.5 * (weights.persons.n // 2) / weights.persons.n)
    batch = data_.subsample(Sampling(0.25), [Gaussian(0.1)], "batch")
    assert batch.n_rows == pytest.approx(12.5 * 0.25)


def test_what_is_summed_over_units_has_the_penalty_of_what_rows_weigh():
    how = RowMap()
    assert Weighed(how).over(60) == Weighed(how)
    assert Weighed(how, weight=30.0, multiple=2.0).over(60) == Weighed(how, multiple=4.0)


@pytest.mark.parametrize("drawn", [False, True])
def test_no_objective_is_perturbed_for_persons_or_for_some_of_them(drawn):
    X, y, weights = data(300)
    rows = ArrayRows(X, y, RowMap(), weights)
    rows = rows.subset(np.arange(20)) if drawn else rows
    minima = PerturbedMinima(Logistic(), rows.n_rows, rows.n_parameters, 1.0, 1.5, 30.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="proved where one row is protected"):
        minima.check(rows)


def test_weights_are_products_rounded_down():
    labels, how = np.array([-1.0, 1.0, 1.0, -1.0]), RowMap(class_shares=(0.35, 1.0), weight_bound=2.0)
    steps = steps_of(labels, how, np.array([ONE, ONE // 3, ONE // 3, ONE // 3]), np.array([1.0, 5.0, 0.5, -1.0]))
    exact = [Fraction(0.35) / 2, Fraction(ONE // 3, ONE), Fraction(ONE // 3, ONE) / 4, 0]
    assert steps.tolist() == [math.floor(part * ONE) for part in exact]
    assert steps_of(labels, RowMap(), None, np.ones(4)) is None
    several = RowMap(n_classes=3, class_shares=(0.5, 1.0, 0.0))
    assert steps_of(np.array([0, 1, 2]), several, None, None).tolist() == [ONE // 2, ONE, 0]


def test_sums_in_two_parts_are_exact():
    rng = np.random.default_rng(0)
    values, weights = rng.integers(-(2**23), 2**23, 200).astype(float), rng.integers(0, ONE + 1, 200).astype(float)
    high, low = products(values, weights)
    assert (low >= 0).all()
    assert (low < ONE).all()
    exact = sum(int(v) * int(w) for v, w in zip(values, weights, strict=True))
    parts = joined(np.array([high.sum()]).astype(np.int64), np.array([low.sum()]).astype(np.int64))
    assert int(_whole(parts)[0]) == exact
    for bits in (0, 4, SHARE_BITS):
        assert on_finer_grid(parts, bits).tolist() == [exact >> (SHARE_BITS - bits)]
    assert int(_whole(in_parts(np.array([exact])))[0]) == exact


def test_rounding_down_counts_once_in_each_entry():
    """Rows that hardly weigh anything may move every entry across an integer of the finer grid."""
    size, step = 100, 1e-6
    for bits in (0, 4, SHARE_BITS - 1):
        below = np.stack([np.zeros(size, np.int64), np.full(size, 2 ** (SHARE_BITS - bits) - 1)])
        above = below + np.array([[0], [1]])
        moved = (on_finer_grid(above, bits) - on_finer_grid(below, bits)).astype(float)
        finer = finer_sensitivity(Sensitivity(l1=size * step, l2=math.sqrt(size) * step, linf=step), bits, size)
        assert moved.sum() == size <= finer.l1 <= size * (1 + step * 2.0**bits) * (1 + 1e-9)
        assert np.linalg.norm(moved) <= finer.l2
        assert moved.max() <= finer.linf


@pytest.mark.parametrize(
    "how",
    [
        {"class_shares": (1.0, np.nextafter(1, 2))},
        {"class_shares": (math.nan, 1.0)},
        {"class_shares": (1.0, -0.1)},
        {"weight_bound": 0.0},
        {"weight_bound": math.inf},
        {"weight_bound": math.nan},
    ],
)
def test_a_map_takes_no_weights_by_which_a_row_counts_more_than_once(how):
    """Maps come from encodings, which are not trusted with that."""
    with pytest.raises(ValueError, match=rf"^{next(iter(how))}=.* must"):
        RowMap(**how)


@pytest.mark.parametrize("name", QUERIES)
def test_the_bits_of_weighted_sums_fit(name):
    """The table of docs/guarantees.md, 15.2: sums of 2^26 units stay below 2^62, with room for noise."""
    units = MOST_ROWS_OF_NETWORKS if name == "network" else 2**26
    promised = QUERIES[name][0].sensitivity("zero-out")
    bits = kept_bits(promised)
    assert promised.linf * 2.0**bits * units <= 2.0**62
    assert promised.linf * 2.0**bits >= 2.0 ** (SHARE_BITS - 1)


@pytest.mark.parametrize("linf", [2.0**-3, 1.0, 3.0, 1000.5, 2.0**20 - 1, 2.0**20, 2.0**40])
def test_as_few_bits_are_kept_as_let_one_row_move_an_entry_by_a_whole_weight(linf):
    bits = kept_bits(Sensitivity(l1=linf, l2=linf, linf=linf))
    assert bits == SHARE_BITS or linf * 2.0**bits >= ONE
    assert bits == 0 or linf * 2.0 ** (bits - 1) < ONE


def test_lower_parts_are_exact_in_floats():
    """Lower parts are below 2^20, units are multiples of 2^-18 up to 1, and at most 2^15 rows are added at a time."""
    assert (ONE - 1) * 2**UNIT_BITS * MOST_ROWS < 2**53
    with pytest.raises(ValueError, match="chunk_rows=32769"):
        ArrayRows(np.ones((3, 1)), np.ones(3), RowMap(), Weights(np.full(3, ONE, dtype=np.int32)), chunk_rows=32769)


def test_lower_parts_of_hessians_are_exact_where_they_are_largest(monkeypatch):
    """Entries of 2^12 - 1 twice, and lower parts near 2^20: 512 rows stay below 2^53, and 1,024 do not."""
    n, entry = 1023, 2**12 - 1
    X, y, how = np.full((n, 1), entry / 2**12), np.ones(n), RowMap(fit_intercept=False)
    for w in np.linspace(0.1, 1, 50):
        query = HessianSum(Logistic(), np.array([w]), clip=0.7)
        factor = int(ArrayRows(X[:1], y[:1], how).total(query)[0, 0]) // entry**2
        if factor % 2:  # or else the sum is a multiple of 2, and exact for longer
            break
    steps = max(range(1, ONE, 2), key=lambda k: factor * k % ONE)
    rows = ArrayRows(X, y, how, Weights(np.full(n, steps, np.int32)))
    exact = n * factor * steps * entry**2
    assert (factor * steps % ONE) * entry**2 * 512 < 2**53 < (factor * steps % ONE) * entry**2 * 1023
    assert _whole(rows.total(query)).tolist() == [[exact]]
    monkeypatch.setattr(dpsk.queries.hessian, "_WEIGHTED_BLOCK", 1024)
    assert _whole(rows.total(query)).tolist() != [[exact]]


def test_a_rate_of_one_half_rounds_no_sum_up():
    """Sums are rounded down, so that a person with a non-negative part never raises a sum by leaving."""
    parts = np.array([[-1, 0], [ONE - 1, 1]])
    assert on_finer_grid(parts, 0).tolist() == [-1, 0]


def test_queries_are_used_by_their_types():
    assert all(isinstance(query, Query) and query.weighed for query, _ in QUERIES.values())


def test_some_persons_are_still_persons():
    """What is not proved for persons refuses a part of them as well."""
    X, y, weights = data(300)
    table = in_memory(schema_of(X), [X]).raw(weights)
    rounded = ArrayRows(X, y, RowMap(), weights), StoredRows([X], y, RowMap(), weights, on_disk=False)
    for rows in (table, RawRows(X, weights=weights), *rounded):
        assert rows.public.by_person
        some = rows.subset(np.arange(10))
        assert some.public.by_person
        with pytest.raises(ValueError, match="chosen before"):  # by rows, persons would be split
            some.subset(np.arange(3))
    assert not ArrayRows(X, y, RowMap(), Weights(weights.steps)).public.by_person


class Unasked(NoisyQuery):
    """A release that says nothing of weights."""

    label, adjacency = "unasked", "zero-out"
    cost = GaussianCost(0.1)

    def check(self, rows):
        raise AssertionError("it has to be refused before")

    def __call__(self, rows, bits):
        raise AssertionError("it has to be refused before")


def test_a_release_with_noise_inside_that_does_not_speak_of_weights_is_refused():
    with pytest.raises(TypeError, match="persons, class_weight and sample_weight"):
        private(*data(20)).draw(Unasked())
