import dataclasses

import numpy as np
import pytest

from dpsk.data import ArrayRows, RowMap
from dpsk.losses import Hinge, HuberHinge, Logistic, MarginLoss, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.mechanisms import Sensitivity
from dpsk.queries import LossesAlong
from dpsk.testing import check_query

BINARY = [Logistic(), Hinge(), HuberHinge(), SquaredHinge(), Sigmoid()]


def _line(loss, clip, columns=(), multiples=range(6)):
    rng = np.random.default_rng(0)
    return LossesAlong(loss, rng.normal(size=(5, *columns)), rng.normal(size=(5, *columns)), multiples, clip=clip)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [1e-3, 1.0, 3.0, 500.0])
@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_sensitivity_of_binary_losses(loss, clip):
    check_query(_line(loss, clip), n_features=4, trials=40)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_sensitivity_of_several_classes(n_classes):
    losses = [Softmax(n_classes), *(OneVsRest(loss, n_classes) for loss in BINARY)]
    for loss in losses:
        check_query(_line(loss, 3.0, (n_classes,)), n_features=4, n_classes=n_classes, trials=30)


def test_sensitivity_is_reached():
    assert check_query(_line(Logistic(), 3.0), n_features=4) == pytest.approx(1)


class TakesOffALossOnTheWay(LossesAlong):
    """Differences to the loss at another point keep the size of the change but are not monotone."""

    def __call__(self, chunk):
        sums = super().__call__(chunk)
        return sums - sums[2]

    def sensitivity(self, adjacency):
        promised = super().sensitivity(adjacency)
        return promised if promised.monotone else Sensitivity(np.inf, np.inf, np.inf)


class ForgetsToClip(LossesAlong):
    def __call__(self, chunk):
        scores, _ = chunk.scores_along(self._line)
        losses = np.minimum(self.loss.value(scores, chunk.y), 1e9)
        return np.full(6, (losses / self.unit).sum()).astype(np.int64)


@pytest.mark.parametrize(
    ("broken", "message"), [(TakesOffALossOnTheWay, "monotone"), (ForgetsToClip, "one unit moved the sum")]
)
def test_check_query_catches(broken, message):
    query = broken(Logistic(), np.ones(5), np.array([1.0, -2, 3, -4, 5]), range(6), clip=3.0)
    with pytest.raises(AssertionError, match=message):
        check_query(query, n_features=4)


@dataclasses.dataclass(frozen=True)
class Squared(MarginLoss):
    """(1 - m)^2 rises on both sides: not one of ours, but somebody's."""

    lipschitz = np.inf
    smoothness = 2.0

    def phi(self, margin):
        return (1 - margin) ** 2

    def slope(self, margin):
        return 2 * (margin - 1)

    def curvature(self, margin):
        return np.full_like(margin, 2.0)


@dataclasses.dataclass(frozen=True)
class Constant(Squared):
    def phi(self, margin):
        return np.full_like(margin, 0.25)


@pytest.mark.parametrize("clip", [0.3, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("loss", [*BINARY, Squared(), Constant()], ids=repr)
def test_sums_are_the_clipped_losses_up_to_the_grid(loss, clip):
    rng = np.random.default_rng(1)
    n = 9000
    X = rng.normal(size=(n, 1)) * 10.0 ** rng.uniform(-2, 3, (n, 1))
    y = rng.choice([-1.0, 1.0], n)
    rows = ArrayRows(X, y, RowMap(fit_intercept=False), chunk_rows=n)
    line = LossesAlong(loss, np.array([0.5]), np.array([0.25]), [0, 1, -3, 1e-3], clip=clip)
    got = rows.total(line) * line.unit
    (chunk,) = rows._chunks()
    slope_bound = 1.0 if np.isfinite(loss.lipschitz) else 2 * (1 + np.sqrt(clip))
    table_step = max(2.0**-12, clip * 2.0**-14)
    for total, multiple in zip(got, [0, 1, -3, 1e-3], strict=True):
        margins = y * chunk.scores(np.array([1.0])) * (0.5 + multiple * 0.25)
        exact = np.clip(loss.phi(margins), 0, clip)
        allowed = line.unit + slope_bound * (table_step + 2.0**-20 * np.abs(margins) * (exact < clip))
        assert abs(total - exact.sum()) <= allowed.sum()


def test_zero_is_on_the_table():
    """At w = 0 all rows have the loss phi(0): its rounding must not depend on where the table starts."""
    rows = ArrayRows(np.ones((10, 1)), np.ones(10))
    line = LossesAlong(Logistic(), np.zeros(2), np.ones(2), [0], clip=3.0)
    assert rows.total(line)[0] == 10 * np.floor(np.log(2) / line.unit)


def test_points_are_where_losses_are_summed():
    line = _line(Hinge(), 3.0, multiples=[0, 2, 5])
    assert line.points.shape == (3, 5)
    np.testing.assert_allclose(line.points[2] - line.points[0], 5 / 2 * (line.points[1] - line.points[0]), rtol=1e-9)
    X = np.random.default_rng(2).normal(size=(30, 4))
    rows = ArrayRows(X, np.ones(30))
    alone = [LossesAlong(Hinge(), point, np.zeros(5), [0], clip=3.0) for point in line.points]
    together = rows.total(line)
    assert np.abs(together - np.concatenate([rows.total(query) for query in alone])).max() <= 30 * 8


@pytest.mark.parametrize("multiples", [[], [np.nan], [[1.0]], [np.inf]])
def test_multiples_are_validated(multiples):
    with pytest.raises(ValueError, match="multiples"):
        LossesAlong(Logistic(), np.zeros(2), np.ones(2), multiples, clip=3.0)


def test_start_and_step_must_agree():
    with pytest.raises(ValueError, match="same shape"):
        LossesAlong(Logistic(), np.zeros(2), np.ones(3), [0], clip=3.0)


@pytest.mark.parametrize("clip", [0, np.nan, np.inf])
def test_clip_is_validated(clip):
    with pytest.raises(ValueError, match="clip="):
        LossesAlong(Logistic(), np.zeros(2), np.ones(2), [0], clip=clip)
