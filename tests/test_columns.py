import numpy as np
import pytest

from dpsk.data import Columns

BOUNDS = {
    "around zero": (-3.0, 5.0),
    "symmetric": (-2.0, 2.0),
    "from zero": (0.0, 0.7),
    "to zero": (-0.3, 0.0),
    "above zero": (1990.0, 2020.0),
    "far above zero": (1e6, 1e6 + 10),
    "below zero": (-7.0, -3.0),
    "tiny": (-1e-100, 1e-100),
    "huge": (-1e300, 1.7e308),
    "equal": (5.0, 5.0),
    "equal and negative": (-3.0, -3.0),
    "equal and zero": (0.0, 0.0),
}


def place(bounds, *entries):
    columns = Columns.within(*bounds, 1)
    return columns.place(np.array(entries)[:, None]).ravel()


def test_bounds_on_both_sides_of_zero_are_divided_by_the_larger():
    assert place((-3.0, 5.0), -3.0, -1.0, 0.0, 2.5, 5.0).tolist() == [-0.6, -0.2, 0.0, 0.5, 1.0]
    assert place((-8.0, 4.0), -8.0, -4.0, 0.0, 4.0).tolist() == [-1.0, -0.5, 0.0, 0.5]


def test_bounds_away_from_zero_are_counted_from_the_nearest():
    assert place((1990.0, 2020.0), 1990.0, 2005.0, 2020.0).tolist() == [0.0, 0.5, 1.0]
    assert place((-7.0, -3.0), -7.0, -4.0, -3.0).tolist() == [-1.0, -0.25, 0.0]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_zero_or_the_bound_nearest_to_it_is_placed_at_zero(bounds):
    low, high = BOUNDS[bounds]
    nearest = min(max(low, 0.0), high)
    assert place((low, high), 0.0, nearest).tolist() == [0.0, 0.0]
    assert Columns.within(low, high, 1).origin.tolist() == [nearest]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_are_mapped_into_the_unit_interval_and_one_of_them_to_its_end(bounds):
    low, high = BOUNDS[bounds]
    ends = place((low, high), low, high)
    assert np.abs(ends).max() == (0.0 if low == high else 1.0)
    inside = place((low, high), *(low * (1 - t) + high * t for t in np.linspace(0, 1, 101)))
    assert (np.diff(inside) >= 0).all()
    assert np.abs(inside).max() <= 1.0


@pytest.mark.parametrize("bounds", BOUNDS)
def test_entries_beyond_the_bounds_are_clipped(bounds):
    low, high = BOUNDS[bounds]
    below, above = (low, high) if abs(high) > 1e307 else (low - max(1.0, abs(low)), high + max(1.0, abs(high)))
    at_low, at_high = place((low, high), low, high)
    assert place((low, high), below, -1.79e308).tolist() == [at_low, at_low]
    assert place((low, high), above, 1.79e308).tolist() == [at_high, at_high]


def test_equal_bounds_place_everything_at_zero_with_a_width_of_one():
    assert place((5.0, 5.0), -1e300, 0.0, 5.0, 5.1, 1e300).tolist() == [0.0] * 5
    assert Columns.within(5.0, 5.0, 1).width.tolist() == [1.0]


@pytest.mark.parametrize(("low", "high"), [(0.0, 5e-324), (-1e-300, 1e-300), (-(2.0**-401), 0.0)])
def test_bounds_that_nearly_touch_count_as_equal(low, high):
    assert Columns.within(low, high, 1).width.tolist() == [1.0]
    assert np.abs(place((low, high), -1.0, low, 0.0, high, 1.0)).max() < 1e-100


def test_bounds_may_be_numbers_or_arrays():
    columns = Columns.within(0, [1, 2, 4], 3)
    assert columns.low.tolist() == [0.0, 0.0, 0.0]
    assert columns.high.tolist() == [1.0, 2.0, 4.0]
    assert columns.factor.tolist() == [1.0, 1.0, 1.0]
    assert columns.centre is None
    assert columns.place(np.array([[1.0, 1.0, 1.0]])).tolist() == [[1.0, 0.5, 0.25]]


def test_the_bounds_are_copies():
    high = np.array([1.0, 2.0])
    columns = Columns.within(0.0, high, 2)
    high[:] = 100
    assert columns.high.tolist() == [1.0, 2.0]


def test_a_flat_list_of_entries_is_placed_by_the_columns_they_stand_in():
    rng = np.random.default_rng(0)
    columns = Columns.within([-1.0, 2.0, -9.0, 5.0], [3.0, 4.0, -8.0, 5.0], 4)
    X = rng.normal(size=(50, 4)) * 6
    at = np.tile(np.arange(4), 50)
    assert np.array_equal(columns.place(X.ravel(), at), columns.place(X).ravel())


def test_placing_does_not_write_to_the_entries():
    X = np.arange(6.0).reshape(3, 2)
    X.flags.writeable = False
    Columns.within(0, 2, 2).place(X)
    assert X.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_standardised_keeps_the_bounds():
    columns = Columns.within([-1.0, 2.0], [3.0, 4.0], 2)
    other = columns.standardised(np.array([2.0, 3.0]), np.array([0.1, 0.2]))
    assert other.low.tolist() == [-1.0, 2.0]
    assert other.high.tolist() == [3.0, 4.0]
    assert other.factor.tolist() == [2.0, 3.0]
    assert other.centre.tolist() == [0.1, 0.2]
    assert columns.factor.tolist() == [1.0, 1.0]


LOW = np.array([-3.0, 0.0, -0.3, 1990.0, -7.0, 5.0, 1e6])
HIGH = np.array([5.0, 0.7, 0.0, 2020.0, -3.0, 5.0, 1e6 + 10])


def example(centred, rng):
    """Rows within bounds, the map of their columns, and what it makes of them."""
    d = len(LOW)
    columns = Columns.within(LOW, HIGH, d)
    centre = rng.uniform(-0.5, 0.5, d) if centred else None
    columns = columns.standardised(rng.uniform(0.5, 20.0, d), centre)
    X = rng.uniform(LOW, HIGH, (200, d))
    mapped = columns.factor * (columns.place(X) - (0.0 if centre is None else centre))
    return X, columns, mapped


@pytest.mark.parametrize("shape", [(), (3,)], ids=["vector", "K=3"])
@pytest.mark.parametrize("centred", [True, False])
def test_weights_in_user_units_give_the_same_scores(centred, shape):
    rng = np.random.default_rng(1)
    X, columns, mapped = example(centred, rng)
    w = rng.normal(size=(len(LOW) + 1, *shape))
    in_units = columns.in_user_units(w, True)
    assert in_units.shape == w.shape
    # scores are sums of numbers up to 1e7, which leave rounding errors of about 1e-9
    np.testing.assert_allclose(X @ in_units[:-1] + in_units[-1], mapped @ w[:-1] + w[-1], rtol=0, atol=1e-7)


@pytest.mark.parametrize("shape", [(), (3,)], ids=["vector", "K=3"])
@pytest.mark.parametrize("centred", [True, False])
def test_without_an_intercept_scores_miss_only_what_it_would_hold(centred, shape):
    """The same constant for all rows: nothing, where every column contains 0 and none is centred."""
    rng = np.random.default_rng(2)
    X, columns, mapped = example(centred, rng)
    w = rng.normal(size=(len(LOW), *shape))
    in_units = columns.in_user_units(w, False)
    assert in_units.shape == w.shape
    difference = X @ in_units - mapped @ w
    np.testing.assert_allclose(difference, np.broadcast_to(difference[0], difference.shape), rtol=0, atol=1e-7)
    with_intercept = columns.in_user_units(np.concatenate([w, np.zeros((1, *shape))]), True)
    np.testing.assert_array_equal(with_intercept[:-1], in_units)
    np.testing.assert_allclose(difference[0], -with_intercept[-1], rtol=0, atol=1e-7)


def test_without_an_intercept_scores_are_the_same_where_zero_stays_zero():
    rng = np.random.default_rng(3)
    low, high = np.array([-3.0, 0.0, -0.3]), np.array([5.0, 0.7, 0.0])
    columns = Columns.within(low, high, 3).standardised(np.array([2.0, 7.0, 0.5]), None)
    X, w = rng.uniform(low, high, (100, 3)), rng.normal(size=3)
    np.testing.assert_allclose(X @ columns.in_user_units(w, False), (columns.place(X) * columns.factor) @ w, atol=1e-13)


def test_the_given_weights_are_not_written_to():
    columns = Columns.within(1.0, 3.0, 2)
    w = np.ones(3)
    w.flags.writeable = False
    assert columns.in_user_units(w, True).tolist() == [0.5, 0.5, 0.0]
