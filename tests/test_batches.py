"""Secret random batches: paid before drawn, each release once, and nothing tells how many rows one holds."""

import copy
import inspect
import itertools
import math
import os
import pickle
import re
import threading
import time
from contextvars import ContextVar, copy_context
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from dpsk.data import ArrayRows, Batch, Columns, PrivateData, RawRows, RowMap
from dpsk.data.ahead import Batches
from dpsk.losses import Hinge, Logistic, OneVsRest, Softmax
from dpsk.mechanisms import AboveThreshold, ArgMin, Gaussian, Laplace, NoisyMin, SeededBits, SystemBits
from dpsk.mechanisms.randomness import bits_beside
from dpsk.mechanisms.samplers import poisson_sample, sample_without_replacement
from dpsk.mechanisms.sparse_vector import OpenSearch
from dpsk.privacy import BatchCost, Budget, BudgetExhausted, GaussianCost, Ledger, PureDP, RenyiDP, Sampling
from dpsk.queries import ArmijoGains, GradientSum, LossesAlong, Magnitudes, Moments, Positions, RowNorms

ORDER = 32
POISSON, FIXED = Sampling(0.3), Sampling(0.3, "without-replacement")


class CountingBits:
    """Seeded bits that tell how many bytes were drawn, and call back before each draw."""

    def __init__(self, seed=0, before=lambda: None):
        self.source, self.taken, self.private, self.before = SeededBits(seed), 0, False, before

    def take(self, n_bytes):
        self.before()
        self.taken += n_bytes
        return self.source.take(n_bytes)


def budget(epsilon=30.0):
    return Budget.of(epsilon, 1e-6, currency=RenyiDP(ORDER))


def make_rows(n=50, d=3):
    rng = np.random.default_rng(0)
    return ArrayRows(rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n))


def make_data(bits=None, *, rows=None, adjacency="zero-out", limit=None, n=50):
    ledger = Ledger(limit or budget())
    return PrivateData(rows or make_rows(n), ledger, bits or SeededBits(1), adjacency=adjacency)


def gradient(loss=None, d=3, clip=1.0):
    loss = loss or Logistic()
    columns = () if loss.n_classes is None else (loss.n_classes,)
    return GradientSum(loss, np.full((d + 1, *columns), 0.25), clip=clip)


def gains(loss=None, d=3):
    loss = loss or Logistic()
    w, direction = np.random.default_rng(2).normal(
        size=(2, d + 1, *(() if loss.n_classes is None else (loss.n_classes,)))
    )
    return ArmijoGains(loss, w, direction, [1.0, 0.5, 0.25], clip=1.0)


def size_of(batch):
    """The secret."""
    return batch._rows.n_rows


def price(sampling, *mechanisms):
    return BatchCost(tuple(mechanism.cost for mechanism in mechanisms), sampling).rdp(ORDER)


# ------------------------------------------------------------------------------------------------- paying and drawing


@pytest.mark.parametrize("sampling", [POISSON, FIXED, Sampling(1.0)], ids=str)
def test_nothing_is_drawn_when_the_price_does_not_fit(sampling):
    bits = CountingBits()
    data = make_data(bits, limit=budget(5.0))
    before = data.remaining
    with pytest.raises(BudgetExhausted, match="'search' asks for"):
        data.subsample(sampling, [Gaussian(0.1), Gaussian(50.0)], "search")
    assert bits.taken == 0
    assert data.remaining == before
    assert data.evaluations == {}


@pytest.mark.parametrize("sampling", [POISSON, FIXED], ids=str)
def test_a_batch_is_paid_before_it_is_drawn(sampling):
    charged = []
    bits = CountingBits(before=lambda: charged.append(data.report().charged))
    data = make_data(bits)
    data.subsample(sampling, [Gaussian(0.1)], "g")
    assert bits.taken > 0
    assert min(charged) == price(sampling, Gaussian(0.1))


MIXTURES = {
    "one": [Gaussian(0.3)],
    "two": [Gaussian(0.3), Gaussian(0.3)],
    "gaussian and pure": [Gaussian(0.3), Laplace(0.2), ArgMin(0.1)],
    "search": [Gaussian(0.3), AboveThreshold(0.2, length=3), AboveThreshold(0.2, length=3, noise="gaussian")],
}


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize(
    "sampling", [Sampling(0.1), POISSON, FIXED, Sampling(1), Sampling(1, "without-replacement")], ids=str
)
def test_all_releases_of_a_batch_are_priced_together(sampling, mixture):
    data = make_data()
    batch = data.subsample(sampling, MIXTURES[mixture], "both")
    listed = [(release.label, release.count, release.cost) for release in data.report().releases]
    assert listed == [("both", 1, price(sampling, *MIXTURES[mixture]))]
    for mechanism in MIXTURES[mixture]:
        batch.release(batch.measure(gains()), mechanism)
    assert [(release.label, release.count, release.cost) for release in data.report().releases] == listed


def test_two_releases_on_one_batch_cost_more_than_on_two():
    joint, alone = (price(Sampling(0.01), *[Gaussian(0.45)] * count) for count in (2, 1))
    assert joint > 20 * alone
    charged = []
    for bought in ([[Gaussian(0.45)] * 2], [[Gaussian(0.45)]] * 2):
        data = make_data()
        for mechanisms in bought:
            data.subsample(Sampling(0.01), mechanisms, "g")
        charged.append(data.report().charged)
    assert charged == pytest.approx([joint, 2 * alone])


def test_pure_releases_have_a_pure_price():
    data = make_data(limit=Budget.of(1.0, 0.0))
    assert isinstance(data.currency, PureDP)
    data.subsample(POISSON, [Laplace(0.25), NoisyMin(0.5)], "pure")
    assert data.report().charged == pytest.approx(math.log1p(0.3 * math.expm1(0.75)), rel=2e-9)
    with pytest.raises(ValueError, match="may have no price"):
        data.subsample(POISSON, [Laplace(0.1), Gaussian(0.1)], "mixed")


@pytest.mark.parametrize("n", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.03, 0.5, 0.51, 0.99])
def test_the_price_without_replacement_is_that_of_the_rows_really_drawn(n, rate):
    """round(0.03 * 50) = 2 rows are a rate of 0.04, and the one row that is drawn at least may be all there are."""
    data = make_data(n=n)
    sampling = Sampling(rate, "without-replacement")
    try:
        batch = data.subsample(sampling, [Gaussian(0.3)], "g")
    except ValueError:
        assert data.report().charged == 0
        return
    drawn = Sampling(size_of(batch) / n, "without-replacement")
    assert batch.n_rows == size_of(batch)
    assert data.report().charged >= price(drawn, Gaussian(0.3)) * (1 - 1e-12)


@pytest.mark.parametrize("n", [100, 1000, 3000])
def test_no_row_is_drawn_that_the_rate_does_not_allow_for(n):
    """One row too many costs up to the order times the relative difference of rates; prices are rounded up by less."""
    for k in (7, 29, 57, 99):
        batch = make_data(n=n).subsample(Sampling(k / n, "without-replacement"), [Gaussian(0.3)], "g")
        assert size_of(batch) == k
        below = Sampling(k / n * (1 - 5e-13), "without-replacement")
        assert size_of(make_data(n=n).subsample(below, [Gaussian(0.3)], "g")) == k - 1
    for order in (2, 30, 1000, 9000):  # at q exp((order - 1) mu^2/2) = 1 the price moves fastest
        mu = math.sqrt(2 * math.log(n / 7) / (order - 1))
        claim = BatchCost((GaussianCost(mu),), Sampling(7 / n, "without-replacement")).rdp(order)
        most = BatchCost((GaussianCost(mu),), Sampling(7 / n * (1 + 2.0**-50), "without-replacement")).rdp(order)
        assert most <= claim * (1 + (1e-10 + 1e-13 * order) / 20)


@pytest.mark.parametrize("rate", [0.3, 0.999999, 1e-9])
def test_replaced_rows_with_poisson_sampling_are_refused(rate):
    bits = CountingBits()
    data = make_data(bits, adjacency="replace")
    with pytest.raises(ValueError, match="no theorem covers it"):
        data.subsample(Sampling(rate), [Gaussian(0.1)], "g")
    assert bits.taken == data.report().charged == 0


def test_a_batch_without_releases_is_refused():
    data = make_data()
    with pytest.raises(ValueError, match="at least one release"):
        data.subsample(POISSON, [], "nothing")
    assert data.report().charged == 0


# --------------------------------------------------------------------------------------------------- what was bought


@pytest.mark.parametrize("sampling", [POISSON, FIXED, Sampling(1.0)], ids=str)
def test_each_release_is_made_once_and_no_other(sampling):
    bits = CountingBits()
    data = make_data(bits)
    batch = data.subsample(sampling, [Gaussian(0.3), Laplace(0.2)], "g")
    charged, drawn = data.report().charged, bits.taken
    sealed = batch.measure(gradient())
    for other in (Gaussian(0.1), Gaussian(math.nextafter(0.3, 1)), Laplace(0.3), ArgMin(0.2), NoisyMin(0.3)):
        with pytest.raises(ValueError, match="was not bought with this batch" if not other.selects else "axis|bought"):
            batch.release(batch.measure(gains()) if other.selects else sealed, other)
    assert (bits.taken, data.report().charged) == (drawn, charged)
    for mechanism in (Laplace(0.2), Gaussian(0.3)):  # in any order
        batch.release(sealed, mechanism)
        drawn = bits.taken
        for what in (sealed, batch.measure(gradient())):
            with pytest.raises(ValueError, match="or was made already"):
                batch.release(what, mechanism)
        assert (bits.taken, data.report().charged) == (drawn, charged)


def test_two_equal_releases_are_two():
    batch = make_data().subsample(POISSON, [Gaussian(0.3)] * 2, "g")
    sealed = batch.measure(gradient())
    one, two = batch.release(sealed, Gaussian(0.3)), batch.release(sealed, Gaussian(0.3))
    assert not np.array_equal(one, two)
    with pytest.raises(ValueError, match="made already"):
        batch.release(sealed, Gaussian(0.3))


def test_the_list_of_mechanisms_may_change_afterwards():
    wanted = [Gaussian(0.3)]
    data = make_data()
    batch = data.subsample(POISSON, wanted, "g")
    wanted += [Gaussian(5.0)] * 3
    with pytest.raises(ValueError, match="not bought"):
        batch.release(batch.measure(gradient()), Gaussian(5.0))
    batch = data.subsample(POISSON, (Gaussian(mu) for mu in (0.1, 0.2)), "generator")
    batch.release(batch.measure(gradient()), Gaussian(0.2))


def test_a_refusal_leaves_what_was_bought():
    data = make_data()
    tiny = Gaussian(1e-15)
    batch = data.subsample(POISSON, [tiny, Gaussian(0.3)], "g")
    sealed = batch.measure(gradient())
    with pytest.raises(BudgetExhausted, match="beyond"):
        batch.release(sealed, tiny)
    with pytest.raises(TypeError, match="Mechanism"):
        batch.release(sealed, lambda *_: 0)
    batch.release(sealed, Gaussian(0.3))


def test_a_seal_is_opened_by_its_own_batch_only():
    data = make_data()
    one, two = (data.subsample(POISSON, [Gaussian(0.3)], "g") for _ in range(2))
    charged = data.report().charged
    seals = {owner: owner.measure(gradient()) for owner in (data, one, two)}
    for owner, opener in itertools.permutations(seals, 2):
        with pytest.raises(ValueError, match="measured on other data"):
            opener.release(seals[owner], Gaussian(0.3))
        with pytest.raises(ValueError, match="measured on other data"):
            opener.release(seals[owner] + 1.0, Gaussian(0.3))
    assert data.report().charged == charged
    two.release(seals[two], Gaussian(0.3))


def test_a_batch_ends_when_something_else_is_paid_for():
    """Theorems compose batches one after the other, so two of them never overlap."""
    for other in (
        lambda data: data.subsample(POISSON, [Gaussian(0.3)], "g"),
        lambda data: data.release(data.measure(gradient()), Gaussian(0.01)),
    ):
        bits = CountingBits()
        data = make_data(bits)
        batch = data.subsample(POISSON, [Gaussian(0.3), Gaussian(0.3)], "g")
        batch.release(batch.measure(gradient()), Gaussian(0.3))
        other(data)
        drawn = bits.taken
        with pytest.raises(ValueError, match="this batch ended"):
            batch.release(batch.measure(gradient()), Gaussian(0.3))
        assert bits.taken == drawn


@pytest.mark.parametrize("sampling", [POISSON, FIXED, Sampling(1.0)], ids=str)
def test_a_batch_has_no_batches(sampling):
    bits = CountingBits()
    data = make_data(bits)
    batch = data.subsample(sampling, [Gaussian(0.3)], "g")
    charged, drawn = data.report().charged, bits.taken
    for attempt in (
        lambda: batch.batch(5),
        lambda: batch.batch(None),
        lambda: batch.subsample(POISSON, [Gaussian(0.3)], "g"),
        lambda: batch.subsample(Sampling(1.0), [Gaussian(0.3)], "g"),
        lambda: batch.draw(None),
    ):
        with pytest.raises(AttributeError, match="'Batch' object has no attribute"):
            attempt()
    assert not issubclass(Batch, PrivateData)
    for name in ("batch", "subsample", "draw", "report", "remaining", "portion", "share", "evaluations"):
        assert not hasattr(batch, name), name
    assert (data.report().charged, bits.taken) == (charged, drawn)


@dataclass(frozen=True)
class SlowCost(GaussianCost):
    """Whose comparison gives other threads their turn."""

    def __eq__(self, other):
        time.sleep(1e-3)
        return self.mu == other.mu

    __hash__ = GaussianCost.__hash__


class SlowGaussian(Gaussian):
    @property
    def cost(self):
        return SlowCost(self.mu)


def test_two_threads_cannot_use_one_release_twice():
    for _ in range(10):
        batch = make_data().subsample(POISSON, [SlowGaussian(0.3)], "g")
        sealed, released, start = batch.measure(gradient()), [], threading.Barrier(4)

        def attempt(batch=batch, sealed=sealed, released=released, start=start):
            start.wait()
            try:
                released.append(batch.release(sealed, SlowGaussian(0.3)))
            except ValueError as refusal:
                assert "made already" in str(refusal)  # noqa: PT017

        threads = [threading.Thread(target=attempt) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(released) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks exist on POSIX only")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("sampling", [POISSON, Sampling(1.0)], ids=str)
def test_a_forked_copy_opens_nothing(sampling):
    """Parent and child would make one bought release twice, with independent noise."""
    batch = make_data(SystemBits()).subsample(sampling, [Gaussian(0.3)], "g")
    sealed = batch.measure(gradient())
    child = os.fork()
    if child == 0:
        try:
            batch.release(sealed, Gaussian(0.3))
        except RuntimeError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    batch.release(sealed, Gaussian(0.3))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_batch_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(make_data().subsample(POISSON, [Gaussian(0.3)], "g"))


# ------------------------------------------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize("query", [gradient(), gains()], ids=["gradient", "gains"])
@pytest.mark.parametrize(
    ("adjacency", "sampling", "expected"),
    [
        ("zero-out", POISSON, "zero-out"),
        ("zero-out", FIXED, "replace"),
        ("replace", FIXED, "replace"),
        ("zero-out", Sampling(1.0), "zero-out"),
        ("zero-out", Sampling(1.0, "without-replacement"), "zero-out"),
        ("replace", Sampling(1.0), "replace"),
    ],
    ids=str,
)
def test_rows_drawn_without_replacement_replace_each_other(adjacency, sampling, expected, query):
    """The place of a row that leaves is taken by another: twice the clip, even where neighbours differ by one less."""
    data = make_data(adjacency=adjacency)
    batch = data.subsample(sampling, [Gaussian(0.3)], "g")
    assert batch.measure(query).sensitivity == query.sensitivity(expected)
    assert data.measure(query).sensitivity == query.sensitivity(adjacency)
    assert query.sensitivity("zero-out") != query.sensitivity("replace")


@pytest.mark.slow
def test_the_noise_without_replacement_is_that_of_replaced_rows():
    """Spread of 300 releases of 4 entries, within 6 standard deviations: error probability below 1e-8."""
    mu, released = 0.05, {POISSON: [], FIXED: []}
    for sampling, seen in released.items():
        data = make_data(SeededBits(5), limit=budget(1000.0))
        for _ in range(300):
            batch = data.subsample(sampling, [Gaussian(mu)], "g")
            seen.append(batch.release(batch.measure(gradient(clip=1.0)), Gaussian(mu)))
    for sampling, times in ((POISSON, 1), (FIXED, 2)):
        noise = np.std(released[sampling], axis=0).mean() * mu  # the batches' own spread is below 3
        assert abs(noise / times - 1) < 6 / math.sqrt(2 * 1200) + 0.02


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("sampling", [FIXED, Sampling(1.0)], ids=str)
def test_the_report_of_a_batch_is_that_of_the_data(adjacency, sampling):
    """One ledger, one guarantee: releases calibrated to rows that leave are not private against replaced rows."""
    data = make_data(adjacency=adjacency)
    data.subsample(sampling, [Gaussian(0.3)], "g")
    assert data.report().adjacency == adjacency


# ---------------------------------------------------------------------------------- the size of a batch is secret


def public_face(thing):
    """Everything public that can be read off without arguments."""
    names = [name for name in dir(thing) if not name.startswith("_")]
    values = {name: getattr(thing, name) for name in names}
    face = {name: value for name, value in values.items() if not inspect.ismethod(value)}
    described = re.sub(r" at 0x\w+", "", repr(thing)), re.sub(r" at 0x\w+", "", str(thing))
    return names, repr(face), described


def refusal(attempt):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        attempt()
    return type(caught.value), str(caught.value)


def test_nothing_public_depends_on_the_size_of_a_batch():
    sizes, faces = set(), set()
    for seed in range(12):
        data = make_data(SeededBits(seed), n=40)
        batch = data.subsample(Sampling(0.05), [Gaussian(0.3), AboveThreshold(0.2, length=3), Laplace(0.2)], "g")
        sizes.add(size_of(batch))
        seals = [batch.measure(query) for query in (gradient(), gains(), RowNorms())]
        released = batch.release(seals[0], Gaussian(0.3)), batch.release(seals[2], Laplace(0.2))
        face = [
            public_face(batch),
            public_face(data),
            [public_face(sealed) for sealed in seals],
            repr(data.report()),
            data.portion(3),
            [(array.shape, array.dtype) for array in released],
            refusal(lambda batch=batch, seals=seals: batch.release(seals[0], Gaussian(0.3))),
            refusal(lambda batch=batch, seals=seals: batch.release(seals[0], AboveThreshold(0.2, length=3))),
            refusal(lambda batch=batch: batch.measure(gradient(d=7))),
            refusal(lambda data=data: data.batch(0)),
        ]
        faces.add(repr(face))
    assert len(sizes) >= 4
    assert 0 in sizes
    assert len(faces) == 1


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [(POISSON, 15.0), (Sampling(1e-6), 50e-6), (FIXED, 15.0), (Sampling(1.0), 50.0), (Sampling(0.013), 0.65)],
    ids=str,
)
def test_the_number_of_rows_is_the_expected_one(sampling, expected):
    data = make_data()
    batch = data.subsample(sampling, [Gaussian(0.3)], "g")
    assert isinstance(batch.n_rows, float)
    assert batch.n_rows == pytest.approx(expected, rel=1e-15)
    assert (batch.n_features, batch.n_parameters) == (3, 4)
    assert data.n_rows == 50


def test_work_is_counted_in_expected_passes_together_with_that_on_all_rows():
    data = make_data()
    data.measure(gradient())
    batch = data.subsample(POISSON, [Gaussian(0.3)], "g")
    batch.measure(gradient())
    batch.measure(gains())
    batch.measure(RowNorms())
    part = data.batch(10)
    part.measure(gradient())
    part.subsample(Sampling(0.5), [Gaussian(0.3)], "g").measure(gradient())
    part.batch(5).measure(gradient())
    expected = {"gradient": pytest.approx(1 + 0.3 + 10 / 50 + 5 / 50 + 5 / 50), "gains": pytest.approx(4 * 0.3)}
    assert data.evaluations == part.evaluations == expected
    data.evaluations["gradient"] = part.evaluations["gains"] = 0
    assert data.evaluations == part.evaluations == expected


RARE = Sampling(1e-6)
STORES = {
    "dense": (np.asarray, {}),
    "sparse": (sp.csr_matrix, {}),
    "chunks": (np.asarray, {"chunk_rows": 7}),
    "standardised": (np.asarray, {"columns": True}),
    "standardised sparse": (sp.csr_matrix, {"columns": True}),
    "standardised sparse without intercept": (sp.csr_matrix, {"columns": True, "fit_intercept": False}),
}


def assert_only_noise_leaves(data, query, mechanism, shape):
    batch = data.subsample(RARE, [mechanism], "g")
    assert size_of(batch) == 0
    sealed = batch.measure(query)
    assert sealed._contents.dtype == np.int64
    assert not sealed._contents.any()
    assert sealed.shape == shape
    released = batch.release(sealed, mechanism)
    if mechanism.selects:
        assert isinstance(released, int)
    else:
        assert released.shape == shape
        assert np.count_nonzero(released) > 0


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Softmax(3), OneVsRest(Logistic(), 3)], ids=repr)
def test_an_empty_batch_releases_noise(loss, store):
    convert, options = STORES[store]
    options = dict(options)
    chunks = {"chunk_rows": options.pop("chunk_rows")} if "chunk_rows" in options else {}
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 4))
    y = rng.choice([-1.0, 1.0], 30) if loss.n_classes is None else rng.integers(3, size=30)
    if options.pop("columns", False):
        options["columns"] = Columns.within(-2, 2, 4).standardised(np.full(4, 1.5), np.full(4, 0.3))
    rows = ArrayRows(convert(X), y, RowMap(n_classes=loss.n_classes, **options), **chunks)
    data = make_data(rows=rows)
    shape = (rows.n_parameters, *(() if loss.n_classes is None else (3,)))
    w, direction = rng.normal(size=(2, *shape))
    steps = [1.0, 0.5, 0.25]
    assert_only_noise_leaves(data, GradientSum(loss, w, clip=1.0), Gaussian(0.3), shape)
    assert_only_noise_leaves(data, LossesAlong(loss, w, direction, range(3), clip=1.0), ArgMin(0.3), (3,))
    for per_unit in (True, False):
        query = ArmijoGains(loss, w, direction, steps, clip=1.0, per_unit=per_unit)
        assert_only_noise_leaves(data, query, Laplace(0.3), (3,))
        assert_only_noise_leaves(data, query, AboveThreshold(0.3, length=3), (3,))


def test_an_empty_batch_releases_noise_for_every_other_query(tmp_path):
    X = np.random.default_rng(4).normal(size=(30, 4))
    placed = RowMap(columns=Columns.within(-2, 2, 4), fit_intercept=False)
    np.save(tmp_path / "X.npy", X)
    mapped = ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), np.ones(30))
    assert_only_noise_leaves(make_data(rows=mapped), gradient(d=4), Gaussian(0.3), (5,))
    for store in (np.asarray, sp.csr_matrix):
        data = make_data(rows=ArrayRows(store(X), np.ones(30), placed))
        assert_only_noise_leaves(data, Moments(4, clip=1.0), Gaussian(0.3), (8,))
        assert_only_noise_leaves(data, Moments(4, clip=1.0, one_sign=True), Gaussian(0.3), (8,))
        raw = make_data(rows=RawRows(store(X)))
        bins = Magnitudes.n_bins, Positions.n_bins
        assert_only_noise_leaves(raw, RowNorms(), Gaussian(0.3), (len(RowNorms.norms),))
        assert_only_noise_leaves(raw, Magnitudes(4, 2.0), Gaussian(0.3), (4, bins[0]))
        assert_only_noise_leaves(raw, Positions(4, 2.0, -np.ones(4), np.ones(4)), Gaussian(0.3), (4, bins[1]))


# -------------------------------------------------------------------------------------- which rows are in a batch


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_a_batch_at_rate_one_is_all_rows(adjacency):
    for scheme, query in itertools.product(("poisson", "without-replacement"), (gradient(), gains())):
        data, whole = (make_data(SeededBits(6), adjacency=adjacency) for _ in range(2))
        batch = data.subsample(Sampling(1.0, scheme), [Gaussian(0.3)], "g")
        released = [owner.release(owner.measure(query), Gaussian(0.3)) for owner in (batch, whole)]
        np.testing.assert_array_equal(*released)
        assert batch.n_rows == whole.n_rows
        assert data.report().charged == pytest.approx(whole.report().charged, rel=1e-12)


@pytest.mark.parametrize("sampling", [POISSON, FIXED, Sampling(0.01)], ids=str)
def test_a_batch_holds_the_rows_that_were_drawn(sampling):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(400, 3)), rng.choice([-1.0, 1.0], 400)
    data = make_data(SeededBits(8), rows=ArrayRows(X, y, chunk_rows=64))
    batch = data.subsample(sampling, [Gaussian(0.3)], "g")
    if sampling.scheme == "poisson":
        chosen = poisson_sample(400, sampling.rate, bits_beside(SeededBits(8)))
    else:
        chosen = sample_without_replacement(400, 120, bits_beside(SeededBits(8)))
    for query in (gradient(), gains()):
        expected = ArrayRows(X[chosen], y[chosen]).total(query)
        np.testing.assert_array_equal(batch.measure(query)._contents, expected)
    assert size_of(batch) == len(chosen) > 0


@pytest.mark.parametrize("sampling", [Sampling(0.1), Sampling(0.1, "without-replacement")], ids=str)
def test_batches_are_the_same_rows_whatever_the_storage(sampling, tmp_path):
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(3000, 4)), rng.choice([-1.0, 1.0], 3000)
    X[rng.random(X.shape) < 0.5] = 0
    np.save(tmp_path / "X.npy", X)
    storages = {
        "dense": ArrayRows(X, y),
        "columns first": ArrayRows(np.asfortranarray(X), y),
        "CSR": ArrayRows(sp.csr_matrix(X), y),
        "chunks of 777": ArrayRows(X, y, chunk_rows=777),
        "CSR in chunks of 100": ArrayRows(sp.csr_matrix(X), y, chunk_rows=100),
        "memmap": ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), y, chunk_rows=500),
    }
    seen = {}
    for name, rows in storages.items():
        data = make_data(SeededBits(10), rows=rows)
        released = []
        for _ in range(2):
            batch = data.subsample(sampling, [Gaussian(0.5), AboveThreshold(0.5, length=3)], "g")
            released.append(batch.release(batch.measure(gradient(d=4)), Gaussian(0.5)).tolist())
            released.append(batch.release(batch.measure(gains(d=4)), AboveThreshold(0.5, length=3)))
        seen[name] = released
    for name, released in seen.items():
        assert released == seen["dense"], name
    assert seen["dense"][0] != seen["dense"][2]


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [Sampling(0.3), FIXED], ids=str)
def test_fresh_batches_are_independent(sampling):
    """How often a row is kept, kept twice in a row, or together with the next one: within 6.2 standard deviations.

    Error probability of each 6e-10. Without replacement rows exclude one another a little.
    """
    n, rate, draws = 50, 0.3, 600
    rows = ArrayRows(np.arange(1.0, n + 1)[:, None], np.ones(n), RowMap(fit_intercept=False))
    data = make_data(SeededBits(11), rows=rows, limit=budget(3000.0))
    kept = np.zeros((draws, n))
    for t in range(draws):
        for chunk in data.subsample(sampling, [Gaussian(0.1)], "g")._rows._chunks():
            kept[t, (chunk.units[:, 0] * chunk.scale).astype(int) - 1] = 1

    def deviations(seen, probability):
        return abs(seen.mean() - probability) / math.sqrt(probability * (1 - probability) / seen.size)

    neighbours = rate * rate if sampling.scheme == "poisson" else rate * (n * rate - 1) / (n - 1)
    assert deviations(kept[1:] * kept[:-1], rate**2) < 6.2
    assert deviations(kept[:, ::2] * kept[:, 1::2], neighbours) < 6.2
    for row in range(n):
        assert deviations(kept[:, row], rate) < 6.2
    assert (kept.sum(axis=1).std() == 0) == (sampling.scheme == "without-replacement")


def test_batches_from_the_system_are_private_and_never_the_same():
    data = make_data(SystemBits(), n=300)
    batches, released = [], []
    for _ in range(3):
        batches.append(data.subsample(POISSON, [Gaussian(0.3)], "g"))
        released.append(batches[-1].release(batches[-1].measure(gradient()), Gaussian(0.3)))
    assert not any(np.array_equal(one, other) for one, other in itertools.combinations(released, 2))
    contents = {tuple(batch.measure(gradient())._contents) for batch in batches}
    assert len(contents) == 3
    assert data.report().private
    assert all(isinstance(batch, Batch) for batch in batches)


def test_a_batch_of_a_random_order_can_be_sampled():
    data = make_data()
    part = data.batch(20)
    batch = part.subsample(POISSON, [Gaussian(0.3)], "g")
    assert batch.n_rows == 0.3 * 20
    assert size_of(batch) <= 20
    assert part.evaluations == data.evaluations


# ------------------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("whole", [True, False], ids=["all rows", "batch"])
def test_a_search_is_paid_for_once_when_it_is_opened(whole):
    bits = CountingBits()
    data = make_data(bits)
    choose = AboveThreshold(0.5, 9)
    owner = data if whole else data.subsample(POISSON, [choose], "b")
    before = data.report().charged
    drawn = bits.taken
    search = owner.open(choose, "search")
    paid = data.report().charged
    assert bits.taken == drawn, "nothing is drawn when a search is opened"
    assert paid - before == pytest.approx(choose.cost.rdp(ORDER) if whole else 0)
    for _ in range(3):
        if owner.release(owner.measure(gains()) + -1e6, search) < 3:
            break
    assert data.report().charged == paid
    if not whole:
        with pytest.raises(ValueError, match="was not bought with this batch"):
            owner.open(choose, "search")


def test_only_searches_are_opened():
    data = make_data()
    with pytest.raises(TypeError, match="open takes an AboveThreshold, not Gaussian"):
        data.open(Gaussian(0.1), "search")
    assert data.report().charged == 0


def test_an_unpaid_search_is_refused():
    bits = CountingBits()
    data, other = make_data(bits), make_data()
    stray, foreign = OpenSearch(AboveThreshold(0.5)), other.open(AboveThreshold(0.5), "search")
    for search in (stray, foreign):
        with pytest.raises(ValueError, match="was not opened here"):
            data.release(data.measure(gains()), search)
    batch = data.subsample(POISSON, [AboveThreshold(0.5)], "b")
    drawn = bits.taken
    with pytest.raises(ValueError, match="was not opened here"):
        batch.release(batch.measure(gains()), foreign)
    assert bits.taken == drawn
    with pytest.raises(BudgetExhausted):
        make_data(limit=budget(0.5)).open(AboveThreshold(1e3), "search")


def test_a_search_ends_when_something_else_is_paid_for():
    bits = CountingBits()
    data = make_data(bits)
    search = data.open(AboveThreshold(0.5, 9), "search")
    data.release(data.measure(gains()) + -1e9, search)
    data.release(data.measure(gradient()), Gaussian(0.1))
    drawn = bits.taken
    with pytest.raises(ValueError, match="ended when something else was paid for"):
        data.release(data.measure(gains()), search)
    assert bits.taken == drawn


def test_the_next_batch_is_collected_in_the_context_of_the_fit():
    """There it stands on what cluster the rows are."""
    place, seen = ContextVar("place", default="nowhere"), []

    class Elsewhere:
        n_rows = 100

        def subset(self, indices):
            seen.append(place.get())
            return self

    context = copy_context()
    context.run(place.set, "a cluster")
    batches = Batches(Elsewhere(), SystemBits())
    for _ in range(3):
        context.run(batches.poisson, 0.1)
    assert seen[:3] == ["a cluster"] * 3
