"""What somebody sees of a fitted model, or of any other thing that was released: numbers by name, and marks."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mechanisms.samplers import Floats
from ..pipelines.in_front import rows_of

_MOST_ENTRIES, _MOST_NUMBERS, _DEEPEST, _LONGEST = 256, 2048, 5, 120
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_METHODS = ("decision_function", "predict_proba")


@dataclass(frozen=True)
class Released:
    """Numbers, which noise may move, and marks, which are short texts that are there or not.

    ``numbers`` has an array for each name. A mark is the type of a part, the type and shape of an array, a text
    without its numbers, an exception, a warning.
    """

    numbers: Mapping[str, Floats] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()


class _Notes:
    """What was seen so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, Floats] = {}
        self.marks: set[str] = set()
        self._room, self._known = _MOST_NUMBERS, set[int]()

    def note(self, name: str, thing: Any, depth: int = 0) -> None:
        """Note a thing and its parts under this name."""
        if isinstance(thing, np.generic):
            thing = np.asarray(thing)
        if isinstance(thing, bool | int | float | complex):
            self._value(name, thing)
        elif isinstance(thing, str | bytes):
            self.text(name, str(thing))
        elif isinstance(thing, np.ndarray) or sp.issparse(thing):
            self._array(name, thing, depth)
        else:
            self._parts(name, thing, depth)

    def text(self, name: str, text: str) -> None:
        """Note a text as a mark, and the numbers in it as numbers."""
        self.marks.add(f"{name}: {_NUMBER.sub('#', text)[:_LONGEST]!r}")
        found = [float(one) for one in _NUMBER.findall(text[:2000]) if not one.startswith("0x")]
        if found:
            self._keep(f"numbers in {name}", np.array(found))

    def _value(self, name: str, value: Any) -> None:
        self.marks.add(f"{name} is a {type(value).__name__}")
        if isinstance(value, complex):
            self._keep(name, np.array([value.real, value.imag]))
            return
        try:
            self._keep(name, np.array([float(value)]))
        except OverflowError:
            self.marks.add(f"{name} is a huge number")

    def _array(self, name: str, array: Any, depth: int) -> None:
        self.marks.add(f"{name} has the type {array.dtype} and the shape {array.shape}")
        if sp.issparse(array):
            self._keep(f"{name}.nnz", np.array([float(array.nnz)]))
            self._array(f"{name}.data", array.tocsr().data[:_MOST_ENTRIES], depth)
        elif array.dtype.names:
            for part in array.dtype.names:
                self._array(f"{name}.{part}", array[part], depth)
        elif array.dtype.kind in "biuf":
            self._keep(name, _some(array).astype(np.float64))
        elif array.dtype.kind == "c":
            self._keep(name, _some(array).view(array.real.dtype).astype(np.float64))
        elif array.dtype.kind in "mM":
            self._keep(name, _some(array).astype(np.int64).astype(np.float64))
        else:
            for place, entry in enumerate(array.ravel()[:_MOST_ENTRIES].tolist()):
                self.note(f"{name}[{place}]", entry, depth + 1)

    def _parts(self, name: str, thing: Any, depth: int) -> None:
        kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
        self.marks.add(f"{name} is {thing.__name__ if isinstance(thing, type) else kind}")
        if thing is None or depth >= _DEEPEST or isinstance(thing, _OPAQUE) or id(thing) in self._known:
            return
        self._known.add(id(thing))
        for part, value in _parts_of(thing):
            self.note(f"{name}{part}", value, depth + 1)

    def _keep(self, name: str, values: Floats) -> None:
        values = values[: self._room]
        self._room -= len(values)
        if len(values):
            self.numbers[name] = values
        if not np.isfinite(values).all():
            self.marks.add(f"{name} has {'NaN' if np.isnan(values).any() else 'an infinite entry'}")


def _some(array: Any) -> Any:
    """Return the entries of an array, of a large one some that are spread over all of it, as weights of a layer are."""
    entries = array.ravel()
    if entries.size <= _MOST_ENTRIES:
        return entries
    return entries[np.arange(_MOST_ENTRIES) * entries.size // _MOST_ENTRIES]


def _parts_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a container or an object by name."""
    if isinstance(thing, Mapping):
        for place, (key, value) in enumerate(list(thing.items())[:_MOST_ENTRIES]):
            name = _NUMBER.sub("#", repr(key))[:_LONGEST] if isinstance(key, str) else f"key {place}"
            yield f"[{name}]", value
            if not isinstance(key, str):
                yield f" {name}", key
    elif isinstance(thing, list | tuple):
        yield from ((f"[{place}]", value) for place, value in enumerate(thing[:_MOST_ENTRIES]))
        yield ".length", len(thing)
    elif isinstance(thing, set | frozenset):
        yield " holds", sorted(map(repr, thing))[:_MOST_ENTRIES]
    elif hasattr(thing, "to_numpy"):
        yield " as an array", np.asarray(thing.to_numpy())
    else:
        yield from ((f".{part}", value) for part, value in sorted(_state(thing).items(), key=lambda item: item[0]))


def _state(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object, and public properties that a fit leaves (``coef_``)."""
    try:
        state = dict(vars(thing)) if hasattr(thing, "__dict__") else thing.__getstate__()
    except Exception:
        return {}
    if not isinstance(state, dict):
        return {}
    for part in dir(type(thing)):
        if part.endswith("_") and not part.startswith("_") and isinstance(getattr(type(thing), part), property):
            try:
                state[part] = getattr(thing, part)
            except Exception as error:
                state[part] = type(error).__name__
    return {str(part): value for part, value in state.items()}


def released(
    thing: Any, probes: Any = None, *, error: BaseException | None = None, told: Mapping[str, str] | None = None
) -> Released:
    """Return what is seen of a thing: its parts, its predictions at some rows, an exception, and other texts.

    Parameters
    ----------
    thing : object
        A fitted model, or whatever an action has returned. Its attributes count as released, private ones too: they
        are in its pickle.
    probes : array-like or None
        Rows at which a model is asked for predictions.
    error : exception or None
        What the fit has raised.
    told : dict or None
        Further texts by channel: warnings, printed lines.
    """
    notes = _Notes()
    for channel, text in (told or {}).items():
        notes.text(channel, text)
    while error is not None:
        notes.text(f"{type(error).__qualname__} was raised", str(error))
        error = error.__cause__ or error.__context__
    notes.note("model" if hasattr(thing, "fit") else "result", thing)
    for method in _METHODS:
        if probes is not None and hasattr(thing, method):
            _note_predictions(notes, method, getattr(thing, method), probes)
    return Released(notes.numbers, frozenset(notes.marks))


def _note_predictions(notes: _Notes, name: str, predict: Callable[[Any], Any], probes: Any) -> None:
    try:
        notes.note(name, np.asarray(predict(probes)))
    except Exception:  # one row may be refused: the others are asked for alone
        for place in range(probes.shape[0]):
            try:
                notes.note(f"{name} at probe {place}", np.asarray(predict(rows_of(probes, slice(place, place + 1)))))
            except Exception as refusal:
                notes.text(f"{name} at probe {place} raised {type(refusal).__qualname__}", str(refusal))
