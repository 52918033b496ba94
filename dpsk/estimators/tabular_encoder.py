"""The encoder of a fitted model of raw tables: what was released of the columns, as a transformer of its own."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from ..data.features import Features
from .blocks import by_blocks
from .raw_tables import raw_blocks


class TabularEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns raw tables into columns of numbers, as a private fit has found them.

    It is the ``encoder_`` of a fitted :class:`~dpsk.DPTabularClassifier`. It holds released values only, and learns
    nothing: ``fit`` changes nothing. So it may stand before any other estimator without a further cost.

    Parameters
    ----------
    features : Features
        The released map of the columns.
    sparse_output : bool
        Whether ``transform`` returns a CSR matrix instead of an array.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), if the columns have names
    """

    def __init__(self, features: Features, *, sparse_output: bool = False) -> None:
        self.features = features
        self.sparse_output = sparse_output

    @property
    def n_features_in_(self) -> int:
        return len(self.features.schema.names)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        if not self.features.schema.named:
            raise AttributeError("the columns have no names")
        return np.array(self.features.schema.names, dtype=object)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return the encoder as it is: nothing is learned."""
        return self

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Return the features of each row: in [-1, 1], neither centred nor scaled.

        Values that were never seen count as other ones, missing ones as missing, numbers beyond the ends as the end.
        """
        rows = sp.vstack([self.features.transform(chunk) for chunk in raw_blocks(self, self.features.schema, X)], "csr")
        return rows if self.sparse_output else rows.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, such as ``"age"``, ``"age near 38"`` and ``"job = nurse"``."""
        _check_feature_names_in(self, input_features)
        return np.array(self.features.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True
