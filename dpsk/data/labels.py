"""Class labels: the public set of them, and the numbers that losses take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rows import Labels


def as_classes(classes: Any) -> NDArray[Any]:
    """Return the labels listed, sorted; raise ValueError unless they are at least two, of one type."""
    try:
        given = np.asarray(classes)
        labels: NDArray[Any] = np.unique(given)
        kinds = {isinstance(label, str) for label in np.asarray(classes, dtype=object).ravel()}
        good = given.ndim == 1 and len(labels) > 1 and len(kinds) == 1 and (labels == labels).all()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"classes={classes!r} must be None or list all labels that may occur, two or more, all text or all numbers"
        )
    return labels


def known_classes(seen: NDArray[Any], classes: Any) -> NDArray[Any]:
    """Return the public set of classes, sorted: those given, or those seen."""
    if classes is not None:
        listed = as_classes(classes)
        if (seen.dtype.kind in "OUT") != (listed.dtype.kind in "OUT"):
            kind = "text" if seen.dtype.kind in "OUT" else "numbers"
            raise ValueError(f"y holds {kind}, but classes={listed.tolist()!r}: give both text, or both numbers")
        if not np.isin(seen, listed).all():
            raise ValueError("y contains labels that are not in classes: list every label that may occur")
        return listed
    if seen.dtype.kind == "f" and (seen != np.trunc(seen)).any():
        raise ValueError(
            "Unknown label type: continuous. y holds numbers that are not whole, as a regression target does; if they "
            "are labels, list them all in classes"
        )
    if len(seen) < 2:
        raise ValueError(
            "the data have one class only, but a classifier needs samples of at least 2 classes; "
            "if others may occur, list them all in classes"
        )
    return seen


def as_labels(classes: NDArray[Any], y: Any) -> Labels:
    """Return labels as losses take them: -1 and 1 for two classes, otherwise the position of each in ``classes``."""
    codes: Labels = np.searchsorted(classes, y)
    return 2.0 * codes - 1 if len(classes) == 2 else codes


def all_labels(parts: Sequence[Any]) -> NDArray[Any]:
    """Return the labels of all parts; raise ValueError if some are text and others numbers."""
    kinds = {"text" if part.dtype.kind in "OUST" else "numbers" for part in parts if len(part)}
    if len(kinds) > 1:
        raise ValueError("labels are text in some chunks and numbers in others: give them one type")
    return np.concatenate(parts)
