"""What differs between the scikit-learn versions we support: 1.9 brought callbacks, and knows all kinds of frames."""

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks

    CALLER_OF_FIT = 3
    """The stack level of whoever calls ``fit``, seen from inside: the wrapper of callbacks is one more frame."""
    _KNOWS_ALL_FRAMES = True
except ImportError:
    CALLER_OF_FIT, _KNOWS_ALL_FRAMES = 2, False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support before scikit-learn 1.9."""

    def _with_callbacks(method: Method) -> Method:
        return method


def with_callbacks(method: Method) -> Method:
    """Return ``method`` with the teardown of callbacks around it, where scikit-learn has them."""
    managed: Method = _with_callbacks(method)
    return managed


def callback_context(estimator: Any) -> Any:
    """Return the context of a fit whose number of steps is not known in advance; None before scikit-learn 1.9."""
    init = getattr(estimator, "_init_callback_context", None)
    return None if init is None else init(max_subtasks=None)


def with_names(X: Any, names: tuple[Any, ...] | None, shape: tuple[int, int]) -> Any:
    """Return what tells scikit-learn the names of the columns of a table: before 1.9 it does not know every frame."""
    return X if _KNOWS_ALL_FRAMES or names is None else _Names(names, shape)


class _Names:
    """Names of columns, in the protocol that scikit-learn before 1.9 asks for them with."""

    def __init__(self, names: tuple[Any, ...], shape: tuple[int, int]) -> None:
        self._names, self.shape = names, shape

    def __dataframe__(self) -> Any:
        return self

    def column_names(self) -> tuple[Any, ...]:
        return self._names
