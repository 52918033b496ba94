"""What is known of functions inside a FunctionTransformer: a function sees all rows, and few are known to mix none."""

from numbers import Real
from typing import Any

import numpy as np
from scipy import special

from .verdicts import VOUCH, Finding, public_name

_CLIP = frozenset({"a_min", "a_max", "min", "max"})

ROW_WISE: dict[str, frozenset[str]] = {
    "numpy.clip": _CLIP,
    "numpy.round": frozenset({"decimals"}),
    "numpy.around": frozenset({"decimals"}),
}
"""Functions that treat each entry by itself, and the arguments with which they do, if these are public numbers."""

MIXING = frozenset(
    {f"sklearn.preprocessing.{name}" for name in (
        "scale", "minmax_scale", "maxabs_scale", "robust_scale", "quantile_transform", "power_transform",
    )}
    | {f"numpy.{name}" for name in ("cumsum", "cumprod", "diff", "sort", "gradient", "unique", "mean", "sum", "ptp")}
    | {"scipy.stats.zscore", "scipy.stats.rankdata"}
)  # fmt: skip
"""Functions that are known to make of a row a function of others, too."""

_SAY = "a ufunc of NumPy such as np.log1p, or np.clip with public numbers in kw_args and validate=True; "


def function_rule(step: Any) -> Finding:
    """Return what is known of a FunctionTransformer."""
    func, kw_args = step.func, step.kw_args or {}
    if step.check_inverse and func is not None and step.inverse_func is not None:
        return Finding(
            "mixes rows", "tries the inverse on every so many rows, and warns if it fails", "check_inverse=False"
        )
    if callable(step.feature_names_out):
        return Finding("unknown", "calls feature_names_out, which may do anything", "feature_names_out='one-to-one'")
    if func is None:
        return Finding("stateless", "hands rows on as they are")
    name = public_name(func)
    if is_ufunc(func):
        name = func.__name__
        if kw_args:
            return Finding("unknown", f"nothing is known of {name} with {sorted(kw_args)}", "kw_args=None")
        return Finding("stateless", f"{name} treats each entry by itself")
    if name in ROW_WISE:
        strange = sorted(set(kw_args) - ROW_WISE[name])
        strange += [key for key, value in kw_args.items() if not _is_public_number(value)]
        if strange:
            return Finding("unknown", f"nothing is known of {name} with such {strange}", "public numbers as arguments")
        if not step.validate:
            return Finding(
                "mixes rows",
                f"{name} gives a column of a frame another type if it changes one of its values",
                "validate=True, which makes an array of it first",
            )
        return Finding("public settings", f"{name} treats each entry by itself")
    if name in MIXING:
        return Finding("mixes rows", f"{name} makes of a row what follows from all rows", _SAY.rstrip("; "))
    return Finding("unknown", "calls a function, which sees all rows at once and may take a mean of them", _SAY + VOUCH)


def is_ufunc(func: Any) -> bool:
    """Return whether a function is one of the ufuncs of NumPy or SciPy with one input and one output.

    ``np.frompyfunc`` makes a ufunc of any function, which may remember what it has seen.
    """
    if type(func) is not np.ufunc or func.nin != 1 or func.nout != 1 or func.signature is not None:
        return False
    return any(getattr(module, func.__name__, None) is func for module in (np, special))


def _is_public_number(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, Real)
        or (
            isinstance(value, np.ndarray) and value.dtype.kind in "iufb" and value.ndim <= 1  # one for each column
        )
    )
