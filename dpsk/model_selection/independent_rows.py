"""A model of another library that somebody vouches for: it judges every row by itself."""

from sklearn.frozen import FrozenEstimator


class IndependentRows(FrozenEstimator):  # type: ignore[misc]
    """A fitted model of which you know that no row changes what it says of another, not in the last bit.

    :func:`~dpsk.private_score` and :func:`~dpsk.private_evaluation` ask models of other libraries for one row at a
    time, because a sum in a fast library may be rounded in another way beside other rows. Inside of this they get all
    rows at once. Their guarantee then rests on your word. Trees and forests keep it where they add up in a fixed order;
    products of matrices, as in linear models and networks, do not.

    Parameters
    ----------
    estimator : fitted classifier
        The model. It is used as it is, and never fitted again.
    """
