"""Looks at raw tables whose rows belong to persons: right counts, one person's influence, and what stays hidden."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom
from test_looks import COLUMNS, EDGES, ROWS, Bare, frame_with, look_at

import dpsk.queries.looks
from dpsk import Categories, DPTabularClassifier, Number
from dpsk.data import Door, schema_of
from dpsk.data.fields import Found, FrameChunk
from dpsk.data.frame_tables import in_memory, on_disk
from dpsk.data.kinds import bucket_of
from dpsk.data.persons import Persons
from dpsk.data.weights import ONE, Weights, finer_sensitivity, kept_bits, on_finer_grid
from dpsk.encodings.tabular import TabularEncoding, currency_for
from dpsk.estimators.opening import open_table
from dpsk.mechanisms import Gaussian, SeededBits
from dpsk.privacy import Budget, Discovery, GaussianDP, Ledger
from dpsk.queries.looks import JointHistogram, SignedMagnitudes
from dpsk.testing import check_weights

SIZES = (1, 2, 3, 7, 64, 300, 1000)


def persons_of(codes):
    codes = np.asarray(codes, dtype=np.int32)
    return Persons(codes, int(codes.max()) + 1)


def weights_of(codes):
    persons = persons_of(codes)
    return Weights(persons.weights, persons)


def rows_of(frame, codes, columns=COLUMNS, read=in_memory):
    return read(schema_of(frame, columns), [frame]).raw(weights_of(codes))


def look_of(frame, codes, columns=COLUMNS, *, kind=JointHistogram, **options):
    """A look at the rows of persons that gives every field so much noise as :func:`look_at` does."""
    plain = look_at(frame, columns, **options)
    most = len(codes) - persons_of(codes).n + 1
    discovery = None if plain.discovery is None else replace(plain.discovery, most=most)
    return kind(
        plain.fields,
        plain.edges,
        mechanism=plain.mechanism,
        adjacency=plain.adjacency,
        discovery=discovery,
        of_persons=True,
    )


def bare(frame, codes, columns=COLUMNS):
    """Return the exact counts in steps of 2^-20, by name of the cell."""
    look, named = look_of(frame, codes, columns, kind=Bare), {}
    rows = rows_of(frame, codes, columns)
    look.check(rows)
    for at, counts in look(rows, SeededBits(0)).items():
        cells = counts.names or range(len(counts.cells))
        named |= {(look.fields[at].name, cell): count for cell, count in zip(cells, counts.cells, strict=True)}
        named |= {(look.fields[at].name, rest): getattr(counts, rest) for rest in ("zero", "other", "missing")}
    return {name: int(count * ONE) for name, count in named.items() if count}


def of_python(rows, codes):
    """Count the cells of rows one by one, with plain Python's integers."""
    counts = {}

    def add(*name, k):
        if k:
            counts[name] = counts.get(name, 0) + k

    for (x, listed, found, words), code in zip(rows, codes, strict=True):
        k = ONE // list(codes).count(code)
        inside = max((j for j, (low, _) in enumerate(pairwise(EDGES)) if x is not None and low <= x), default=0)
        add("x", "missing" if x is None else "zero" if x == 0 else inside, k=k)
        add("listed", "missing" if listed is None else listed if listed in "ab" else "other", k=k)
        add("found", found or "missing", k=k)
        buckets = {bucket_of(word, 8) for word in words.split()}
        for bucket in buckets:
            add("words", bucket, k=math.isqrt(k * k // len(buckets)))
    return counts


def some(n, seed):
    return [ROWS[k] for k in np.random.default_rng(seed).integers(len(ROWS), size=n)]


def as_array(counts):
    """Return what every table counts in every cell."""
    cells = sorted({cell for each in counts for cell in each}, key=str)
    return np.array([[each.get(cell, 0) for cell in cells] for each in counts])


# ------------------------------------------------------------------------------------------- counts, and one person


def require_counts_of_python():
    codes = np.random.default_rng(1).integers(12, size=400) ** 2 % 12
    codes = np.unique(codes, return_inverse=True)[1]
    rows = some(400, seed=2)
    assert bare(frame_with(rows), codes) == of_python(rows, codes)


def test_rows_of_persons_count_their_weights():
    require_counts_of_python()


def ignore_weights(monkeypatch):
    monkeypatch.setattr(FrameChunk, "weights", property(lambda self: None, lambda self, value: None), raising=False)


def names_by_rows(monkeypatch):
    counted = dpsk.queries.looks._Count._by_name
    monkeypatch.setattr(dpsk.queries.looks._Count, "_by_name", lambda self, values, _: counted(self, values, None))


def roots_of_weights(monkeypatch):
    roots = property(lambda self: np.floor(ONE * np.sqrt(weights(self) / ONE)).astype(np.int32))
    weights = Persons.weights.func
    monkeypatch.setattr(Persons, "weights", roots)


def require_sensitivity_of_counts():
    """For all tables: counts are sums over persons, and here are many persons and all pairs of them."""
    people = [some(size, seed) for size in SIZES for seed in range(3)]
    people += [[row] * size for row in (ROWS[0], ROWS[-1]) for size in (1, 1000)]
    frames = [frame_with(rows) for rows in people]
    parts = as_array([bare(frame, np.zeros(len(frame))) for frame in frames])
    codes = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    together = bare(pd.concat(frames, ignore_index=True), codes)
    np.testing.assert_array_equal(as_array([together])[0], parts.sum(axis=0))
    pairs = np.array([parts[a] - parts[b] for a, b in combinations(range(len(parts)), 2)])
    for adjacency, change in (("zero-out", parts), ("replace", pairs)):
        promised = look_of(frames[0], np.zeros(1), adjacency=adjacency).sensitivity
        assert np.abs(change).sum(axis=1).max() <= promised.l1
        assert 0.9 * promised.l2 < math.sqrt((change**2).sum(axis=1).max()) <= promised.l2
        assert np.abs(change).max() <= promised.linf == ONE
        assert not promised.monotone or (change >= 0).all()


def test_one_person_moves_counts_by_at_most_the_sensitivity():
    require_sensitivity_of_counts()


@pytest.mark.parametrize("fault", [ignore_weights, names_by_rows, roots_of_weights])
@pytest.mark.parametrize("check", [require_counts_of_python, require_sensitivity_of_counts])
def test_persons_that_count_too_much_are_caught(check, fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check()


def test_words_of_a_weight_are_truncated_to_the_grid():
    """The root of a number of words is irrational, or divides a weight exactly: no row adds more than its weight."""
    texts = [" ".join(f"w{k}" for k in range(m)) for m in (1, 2, 4, 5, 9, 16, 100, 999)]
    for n_rows in (1, 3, 4, 7, 1000, 2**15):
        frame = pd.DataFrame({"t": texts * n_rows})
        codes = np.tile(np.arange(len(texts)), n_rows)
        columns = {"t": dpsk.Text(2**12)}
        bags = [{bucket_of(word, 2**12) for word in text.split()} for text in texts]
        k, expected = ONE // n_rows, {}
        for bag in bags:
            for bucket in bag:
                expected[bucket] = expected.get(bucket, 0) + n_rows * math.isqrt(k * k // len(bag))
            assert len(bag) * (n_rows * math.isqrt(k * k // len(bag))) ** 2 <= ONE**2
        if n_rows <= 1000:
            assert bare(frame, codes, columns) == {("t", b): count for b, count in expected.items()}
        else:
            chunk = schema_of(frame, columns).read(frame.iloc[:8])
            words = dpsk.queries.looks._Count({}, {}, 20, 1, 0)._words(chunk.values[0], 2**12, np.full(8, k))
            assert {b: n_rows * int(count) for b, count in enumerate(words) if count} == expected


def test_one_person_moves_magnitudes_by_at_most_the_sensitivity():
    query, rng = SignedMagnitudes([0, 1]), np.random.default_rng(0)
    columns, parts = {"a": Number(), "b": Number()}, []
    for size in SIZES * 3:
        frame = pd.DataFrame(rng.normal(size=(size, 2)) * 10.0 ** rng.integers(-9, 15, (size, 2)), columns=["a", "b"])
        frame = frame.where(rng.random((size, 2)) > 0.2, rng.choice([0.0, np.nan], (size, 2)))
        if rng.random() < 0.3:
            frame[:] = frame.iloc[0].to_numpy()
        high, low = rows_of(frame, np.zeros(size), columns).total(query)
        unweighted = in_memory(schema_of(frame, columns), [frame]).raw().total(query)
        np.testing.assert_array_equal(high * ONE + low, unweighted * (ONE // size))
        parts.append(np.stack([high, low]))
    for adjacency, pairs in (("zero-out", [(part, 0 * part) for part in parts]), ("replace", combinations(parts, 2))):
        promised = query.sensitivity(adjacency)
        kept = kept_bits(promised)
        finer = finer_sensitivity(promised, kept, parts[0][0].size)
        change = np.array([on_finer_grid(a, kept) - on_finer_grid(b, kept) for a, b in pairs]).reshape(
            -1, parts[0][0].size
        )
        assert np.abs(change).sum(axis=1).max() <= finer.l1
        assert 0.9 * finer.l2 < math.sqrt((change**2).sum(axis=1).max()) <= finer.l2 < 1.001 * promised.l2 * 2**kept
        assert np.abs(change).max() <= finer.linf


def raw_rows(X, y, weights):
    del y
    return in_memory(schema_of(X), [X]).raw(weights)


@pytest.mark.parametrize("fields", [[0], range(5)])
def test_magnitudes_of_persons_are_sums_of_weights(fields):
    assert check_weights(SignedMagnitudes(fields), n_features=5, make_rows=raw_rows) > 0.7


# ------------------------------------------------------------------------------------------- values of one person


def chance(look, steps):
    """The probability that a person shows one of its own values, who has these steps in every column of the look."""
    hidden = log_ndtr((look._threshold - np.asarray(steps) - 0.5) / look._sigma()).sum()
    return -math.expm1(look.discovery.columns * hidden)


def look_at_names(n_columns, *, sigma, failure, most):
    """A look at columns of unknown values, whose noise has so many steps."""
    fields = dict(enumerate(Found(f"c{j}", j) for j in range(n_columns)))
    mu = math.nextafter(math.sqrt(n_columns), math.inf) * ONE / sigma
    discovery = Discovery(failure, n_columns, ONE / sigma, most)
    return JointHistogram(
        fields, {}, mechanism=Gaussian(mu), adjacency="zero-out", discovery=discovery, of_persons=True
    )


def require_many_rows_hidden(most, *, n_rows=300, failure=0.01, persons=1500, per_person=20):
    """Persons of many rows, each with a value of its own. A person shows one with the promised probability at most."""
    for sigma in (ONE // 2, 30 * ONE):
        for n_columns in (1, 3):
            look = look_at_names(n_columns, sigma=sigma, failure=failure, most=most(n_rows))
            for used in (1, 2, 10, n_rows):  # so many values; the first has the weight of all other rows
                k = ONE // n_rows
                steps = [k * (n_rows - used + 1), *[k] * (used - 1)]
                assert chance(look, steps) <= failure, f"{used} values, sigma={sigma}, {n_columns} columns"
    frame = pd.DataFrame({f"c{j}": [f"{j} {k}" for k in range(persons * per_person)] for j in range(2)})
    codes = np.arange(persons * per_person) % persons
    columns = dict.fromkeys(frame, Categories())
    look = look_at_names(2, sigma=30 * ONE, failure=failure, most=most(per_person))
    released = look(rows_of(frame, codes, columns), SeededBits(5))
    shown = {codes[int(name.split()[1])] for counts in released.values() for name in counts.names}
    assert binom.sf(len(shown) - 1, persons, failure) > 1e-6
    exact = chance(look, [ONE // per_person] * per_person)
    assert binom.cdf(len(shown), persons, exact) > 1e-6
    assert 0.3 * failure < exact


def test_values_of_a_person_with_many_rows_stay_hidden():
    require_many_rows_hidden(lambda n_rows: n_rows)


def test_a_threshold_for_one_row_each_is_caught():
    with pytest.raises(AssertionError):
        require_many_rows_hidden(lambda n_rows: 1)


def test_the_simulation_alone_catches_a_threshold_for_one_row_each(monkeypatch):
    monkeypatch.setattr("test_looks_persons.chance", lambda look, steps: look.discovery.failure)
    with pytest.raises(AssertionError):
        require_many_rows_hidden(lambda n_rows: 1)


def require_one_person_hidden():
    """500 persons have one value, and one person has another one in 500 rows."""
    frame, codes = pd.DataFrame({"c0": ["only mine"] * 500 + ["ours"] * 500}), [0] * 500 + [*range(1, 501)]
    look = look_at_names(1, sigma=10 * ONE, failure=0.01, most=500)
    released = look(rows_of(frame, codes, {"c0": Categories()}), SeededBits(0))
    assert released[0].names == ("ours",)
    assert abs(released[0].cells[0] - 500) < 60


def test_a_value_of_many_persons_shows_and_that_of_one_with_as_many_rows_does_not():
    require_one_person_hidden()


def test_names_by_rows_are_caught_by_what_is_shown(monkeypatch):
    names_by_rows(monkeypatch)
    with pytest.raises(AssertionError):
        require_one_person_hidden()


def test_a_look_that_was_not_made_for_these_persons_is_refused():
    frame, codes = frame_with(ROWS), np.arange(len(ROWS)) % 10
    rows, look = rows_of(frame, codes), look_of(frame, codes)
    look.check(rows)
    fewer = JointHistogram(
        look.fields,
        look.edges,
        mechanism=look.mechanism,
        adjacency="zero-out",
        discovery=replace(look.discovery, most=look.discovery.most - 1),
        of_persons=True,
    )
    with pytest.raises(ValueError, match=f"one person can have up to {len(ROWS) - 9} rows: .*most={len(ROWS) - 10}"):
        fewer.check(rows)
    with pytest.raises(ValueError, match="of_persons=False, but the rows have weights"):
        look_at(frame).check(rows)
    with pytest.raises(ValueError, match="of_persons=True, but the rows have no weights"):
        look.check(in_memory(schema_of(frame, COLUMNS), [frame]).raw())
    with pytest.raises(ValueError, match="all rows, and not in some"):
        look.check(rows.subset(np.arange(5)))


# ------------------------------------------------------------------------------------------- storages, and encodings


def everything(rows, look):
    look.check(rows)
    return [(c.names, c.cells.tobytes(), c.zero, c.other, c.missing) for c in look(rows, SeededBits(1)).values()]


def with_persons(table, codes):
    """Return the table with persons, and what is public about them."""
    table.persons = persons_of(codes)
    most = len(codes) - table.persons.n + 1
    table.facts = replace(table.facts, n_rows=table.persons.n, unit="person", weighted=True, most_rows=most)
    return table


def test_blocks_files_and_clusters_weigh_rows_the_same(monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    frame, codes, y = frame_with(some(500, 0)), np.arange(500) ** 2 % 37, np.arange(500) % 2
    codes = np.unique(codes, return_inverse=True)[1]
    look, schema = look_of(frame, codes, mu=0.3), schema_of(frame, COLUMNS)
    whole = everything(rows_of(frame, codes), look)
    cuts = [frame.iloc[:3], frame.iloc[3:200], frame.iloc[200:]]
    assert everything(in_memory(schema, cuts).raw(weights_of(codes)), look) == whole
    backwards = np.r_[200:500, 3:200, 0:3]
    assert everything(on_disk(schema, cuts[::-1]).raw(weights_of(codes[backwards])), look) == whole
    given = dd.from_pandas(frame, npartitions=4), dd.from_pandas(pd.Series(y), npartitions=4)
    model = DPTabularClassifier(columns=COLUMNS)
    cluster = open_table(model, *given, model)
    assert everything(with_persons(cluster, codes).raw(), look) == whole
    monkeypatch.setattr(dpsk.data.schema, "ROWS_AT_A_TIME", 7)
    assert everything(rows_of(frame, codes), look) == whole
    rows, parts = rows_of(frame, codes), rows_of(frame, codes).subset(np.arange(10))
    steps = np.concatenate([chunk.weights for chunk in parts._chunks()])
    np.testing.assert_array_equal(steps, weights_of(codes).steps[codes < 10])
    assert (parts.n_rows, rows.n_rows) == (10, persons_of(codes).n)


def learned(frame, codes, epsilon=4.0, columns="auto", seed=0):
    """Return the map that the encoding learns of persons, and what it paid."""
    model = DPTabularClassifier(columns=columns)
    table = with_persons(open_table(model, frame, np.arange(len(frame)) % 2, model), codes)
    currency = currency_for(table.facts, epsilon, 1e-6, "zero-out")
    ledger = Ledger(Budget.of(epsilon, 1e-6, currency=currency))
    return TabularEncoding().learned(Door(ledger, SeededBits(seed), "zero-out"), table), currency


def mixed(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(size=n), "y": rng.lognormal(size=n), "z": rng.integers(3, size=n) * 1.0})


def test_copies_of_rows_change_nothing():
    """A person with four times the same row is a person with this row: the same bits, from the same noise."""
    once = mixed(3000)
    copies = pd.concat([once] * 4, ignore_index=True)
    one, _ = learned(once, np.arange(3000))
    four, _ = learned(copies, np.tile(np.arange(3000), 4))
    assert list(one.features.names) == list(four.features.names)
    np.testing.assert_array_equal(one.ranges, four.ranges)
    np.testing.assert_array_equal(one.features.moments.mean, four.features.moments.mean)
    chunk = schema_of(once).read(once)
    assert abs(one.features.transform(chunk) - four.features.transform(chunk)).max() == 0


def test_means_are_those_of_persons():
    """Half of the persons have one row with an a, the others nine rows with a b: the mean of a is a half."""
    n = 4000
    few = np.arange(n) % 2 == 0
    codes = np.repeat(np.arange(n), np.where(few, 1, 9))
    value = np.where(few, "a", "b")[codes]
    frame = pd.DataFrame({"found": value, "listed": value, "x": np.where(few, 1.0, 3.0)[codes]})
    how, currency = learned(frame, codes, epsilon=50.0, columns={"listed": Categories(["a", "b"])})
    assert isinstance(currency, GaussianDP)
    assert currency.discovery.most == len(codes) - n + 1
    names, mean = list(how.features.names), how.features.moments.mean
    shares = [share for name, share in zip(names, mean, strict=True) if name.startswith(("found", "listed"))]
    assert len(shares) == 4
    np.testing.assert_allclose(shares, 0.5, atol=0.01)


def test_a_fit_for_persons_discovers_values_of_many_of_them():
    """One person has more rows than all others together: its value is not shown, the values of many are."""
    mine, codes = np.arange(3000) >= 1200, np.minimum(np.arange(3000), 1200)
    frame = pd.DataFrame({"v": np.where(mine, "only mine", np.where(codes % 2, "odd", "even")), "x": codes % 7.0})
    options = {"epsilon": 4.0, "random_state": 0}
    names = {}
    for groups in (None, codes):
        model = DPTabularClassifier(**options).fit(frame, codes % 3 == 0, groups=groups)
        names[groups is None] = [name for name in model.encoder_.get_feature_names_out() if name.startswith("v")]
        assert model.privacy_spent_.discovery.most == (1 if groups is None else 1800)
    assert names[True] == ["v = even", "v = odd", "v = only mine"]
    assert {"v = even", "v = odd"} <= set(names[False])
    assert not any("mine" in name for name in names[False])
