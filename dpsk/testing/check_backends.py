"""Conformance of a backend."""

from collections.abc import Callable

import numpy as np

from ..data import ArrayRows, RowMap, Rows
from ..losses import Hinge, Logistic, Loss, OneVsRest, Softmax
from ..queries import GradientSum, LossesAlong
from .common import heavy_tailed, random_labels, require


def check_rows(make_rows: Callable[..., Rows], *, seed: int = 0) -> None:
    """Check that a backend gives the same bits as dense rows, for every query and score shape.

    ``make_rows(X, y, how)`` gets a dense float64 array, labels and a :class:`~dpsk.data.RowMap`, and returns the
    backend under test.
    """
    rng = np.random.default_rng(seed)
    for n, d, data in ((1, 1, "normal"), (300, 7, "heavy"), (2000, 30, "sparse"), (9000, 12, "normal")):
        X = heavy_tailed(n, d, rng) if data == "heavy" else rng.normal(size=(n, d))
        if data == "sparse":
            X[rng.random((n, d)) < 0.9] = 0
        for n_classes, fit_intercept in ((None, True), (3, False), (None, False), (3, True)):
            y = random_labels(n_classes, n, rng)
            losses: list[Loss] = [Logistic(), Hinge()]
            if n_classes is not None:
                losses = [Softmax(n_classes), OneVsRest(Hinge(), n_classes)]
            how = RowMap(n_classes, fit_intercept)
            dense, tested = ArrayRows(X, y, how), make_rows(X.copy(), y.copy(), how)
            require(
                (tested.n_rows, tested.n_features, tested.n_parameters) == (n, d, d + fit_intercept),
                "the backend reports other numbers of rows, features or parameters",
            )
            shape = (d + fit_intercept,) if n_classes is None else (d + fit_intercept, n_classes)
            w = rng.normal(size=shape) / np.sqrt(d)
            for loss in losses:
                line = LossesAlong(loss, w, 0.1 * rng.normal(size=shape), range(5), clip=3.0)
                moved = GradientSum(loss, line.points[3], clip=1.5)
                for query in (GradientSum(loss, w, clip=0.7), line, moved, GradientSum(loss, w + 0.3, clip=2.0)):
                    require(
                        np.array_equal(dense.total(query), tested.total(query)),
                        f"{query.label} of {loss!r} differs from dense rows ({n} x {d}, {data})",
                    )
