"""What a search or cross-validation will cost: the earlier name of :mod:`dpsk.model_selection.privacy_cost`."""

import inspect
from typing import Any

from .fits_of_searches import SEARCHES
from .privacy_cost import PrivacyCost, privacy_cost
from .search import PrivateSearchCV

SearchCost = PrivacyCost


def search_cost(search: Any, *args: Any, cv: Any = None, **kwargs: Any) -> PrivacyCost:
    """Return what :func:`privacy_cost` does; an estimator that is no search stands for its cross-validation.

    Parameters
    ----------
    search : search or estimator
        As ``what`` of :func:`privacy_cost`.
    cv : optional
        The folds of the cross-validation of an estimator. None: those that ``cross_validate`` makes.
    *args, **kwargs
        As for :func:`privacy_cost`.

    Returns
    -------
    PrivacyCost

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from dpsk import DPLogisticRegression, search_cost
    >>> search_cost(GridSearchCV(DPLogisticRegression(), {"alpha": [1e-4, 1e-2]}, cv=3)).fits
    7
    """
    if type(search) in (*SEARCHES, PrivateSearchCV) or inspect.isfunction(search):
        return privacy_cost(search, *args, **kwargs, **({} if cv is None else {"cv": cv}))
    return privacy_cost(search, *args, **kwargs, cv=5 if cv is None else cv)
