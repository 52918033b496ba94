"""Progress of a fit: what is printed, and what callbacks get. Both see released values only."""

from collections.abc import Callable
from typing import Any

from .._sklearn_compat import callback_context
from ..data import PrivateData, RowMap
from ..mechanisms.samplers import Floats
from ..objectives import Objective
from .tabular_encoder import TabularEncoder


class Progress:
    """What one fit of an estimator shows while it lasts."""

    def __init__(self, estimator: Any, classes: Any) -> None:
        self._estimator, self._classes, self._context = estimator, classes, callback_context(estimator)
        self._count = 0  # of iterates
        if self._context is not None:
            self._context.call_on_fit_task_begin(estimator=estimator)

    def attributes(self, objective: Objective, w: Floats, how: RowMap) -> dict[str, Any]:
        """Return the fitted attributes that weights of an objective stand for."""
        released = objective.attributes(w, how)
        if not objective.linear:
            released["n_iter_"] = self._count
        if how.features is not None:
            released["encoder_"] = TabularEncoder(how.features)
        else:
            released |= {"ranges_": how.ranges, "data_norm_": how.data_norm}
        return {"classes_": self._classes, **released}

    def observer(self, data: PrivateData, objective: Objective, how: RowMap) -> Callable[[Floats], bool]:
        """Return what is called with every iterate; it returns True where a callback ends the fit."""
        shown, verbose = -1, self._estimator.verbose

        def observe(w: Floats) -> bool:
            nonlocal shown
            self._count += 1
            used = 1 - data.remaining / data.budget.limit
            if verbose and (int(10 * used) > shown or verbose > 1):
                shown = int(10 * used)
                print(f"[{type(self._estimator).__name__}] iterate {self._count}: {100 * used:.0f}% of the budget used")
            if self._context is None:
                return False
            task = self._context.subcontext(task_name="iterate")
            task.call_on_fit_task_begin(estimator=self._estimator)
            return bool(self._end(task, lambda: self.attributes(objective, w, how)))

        return observe

    def end(self, fitted: dict[str, Any]) -> None:
        """Tell callbacks that the fit has ended with these attributes."""
        if self._context is not None:
            self._end(self._context, lambda: fitted)

    def _end(self, task: Any, attributes: Callable[[], dict[str, Any]]) -> Any:
        return task.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=attributes)
