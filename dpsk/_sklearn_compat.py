"""What differs between the scikit-learn versions we support: callbacks exist from 1.9 on."""

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks

    CALLER_OF_FIT = 3
    """The stack level of whoever calls ``fit``, seen from inside: the wrapper of callbacks is one more frame."""
except ImportError:
    CALLER_OF_FIT = 2

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
