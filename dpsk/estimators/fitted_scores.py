"""The scores of rows under a fitted model: of a linear one by its coefficients, of a network by the network."""

from typing import Any

from ..data import row_scores
from ..mechanisms.samplers import Floats


def scores_of(model: Any, rows: Any) -> Floats:
    """Return the scores of rows of numbers, shape (n, K), or (n, 1) for two classes.

    They follow from what the fit has released, not from parameters: these may have changed since.
    """
    network = getattr(model, "network_", None)
    if network is not None:
        scores: Floats = network.scores(rows)
        return scores
    how = (getattr(model, name, None) for name in ("ranges_", "data_norm_", "waves_"))
    return row_scores(rows, model.coef_, model.intercept_, *how)
