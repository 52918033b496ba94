"""Everything that an observer can see of an action, except the values of its noise, as a tree to compare."""

from __future__ import annotations

import io
import logging
import os
import pickle
import re
import shutil
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..privacy.durable.store import PrivacyLedger
from ..privacy.fits_so_far import as_in_a_new_process
from .replay import replayed

_OF_NUMPY = re.compile(r"np\.\w+\((.*)\)|np\.(True|False)_", re.S)
_NOTHING = "builtins.NoneType"


@dataclass(frozen=True)
class Seen:
    """A thing as an observer sees it.

    ``kind`` is the part that noise cannot change: a type, a dtype, a text without its numbers. ``value`` is the part
    that noise may change. ``parts`` have names, ``items`` have places. ``loose`` says that noise may decide whether
    there is a number or None, or which keys a dict has. Where ``value`` holds the bytes of an array, an entry has
    ``width`` of them.
    """

    kind: str
    value: Any = None
    parts: Mapping[str, Seen] = field(default_factory=dict)
    items: Sequence[Seen] | None = None
    loose: bool = False
    width: int = 0


def differences(where: str, plain: Sequence[Seen], twin: Sequence[Seen]) -> Iterator[str]:
    """Yield the differences between an action on two data sets, each seen under the same streams of bits, in order.

    Kinds and names of parts have to be equal under every stream. Values, and numbers of items, are noise if they change
    from stream to stream. A value that is the same under all streams on one data set, and another one on the other data
    set, is not noise.
    """
    kind = _other_kind(plain, twin)
    if kind:
        yield f"{where}: {kind}"
        return
    entries = _entries_moved_by_the_row(plain, twin)
    if _moved_by_the_row(*([seen.value for seen in some] for some in (plain, twin))):
        yield f"{where}: {_shown(plain[0])} became {_shown(twin[0])}, whatever the noise"
    elif len(entries):
        yield f"{where}: entry {entries[0]} of an array, and {len(entries) - 1} more, moved whatever the noise"
    for name in plain[0].parts:
        if all(name in seen.parts for seen in (*plain, *twin)):
            yield from differences(f"{where}{name}", *([seen.parts[name] for seen in some] for some in (plain, twin)))
    ones, others = ([seen.items for seen in some if seen.items is not None] for some in (plain, twin))
    if len(ones) == len(plain) and len(others) == len(twin):
        yield from _differences_of_items(where, ones, others)


def shows(seen: Seen, text: str) -> bool:
    """Return whether a text without numbers stands anywhere: in a text, a key of a dict, or the name of a file."""
    here = [seen.kind, *seen.parts, *([seen.value] if isinstance(seen.value, str) else [])]
    inside = [*seen.parts.values(), *(seen.items or ())]
    return any(text in without_numbers(one) for one in here) or any(shows(one, text) for one in inside)


def _other_kind(plain: Sequence[Seen], twin: Sequence[Seen]) -> str | None:
    """Return in words which kind, or names of parts, no noise can have changed."""
    kinds = [seen.kind for seen in plain], [seen.kind for seen in twin]
    for one, other in zip(plain, twin, strict=True):
        optional = _NOTHING in (one.kind, other.kind) and (one.loose or other.loose)
        if one.kind != other.kind and (not optional or _moved_by_the_row(*kinds)):
            return f"{one.kind!r} became {other.kind!r}"
        gone, new = (sorted(set(a.parts) - set(b.parts)) for a, b in ((one, other), (other, one)))
        changes = [text for names, text in ((new, f"{new} now"), (gone, f"{gone} no longer")) if names]
        if changes and not one.loose:
            return f"there is {' and '.join(changes)}"
    return None


def _differences_of_items(
    where: str, ones: Sequence[Sequence[Seen]], others: Sequence[Sequence[Seen]]
) -> Iterator[str]:
    lengths = [len(found) for found in ones], [len(found) for found in others]
    if len({*lengths[0], *lengths[1]}) == 1:
        for place in range(len(ones[0])):
            yield from differences(f"{where}[{place}]", *([found[place] for found in some] for some in (ones, others)))
    elif _moved_by_the_row(*lengths):
        yield f"{where}: {len(ones[0])} items became {len(others[0])}, whatever the noise"


def _moved_by_the_row(plain: list[Any], twin: list[Any]) -> bool:
    return plain[0] != twin[0] and plain.count(plain[0]) == len(plain) and twin.count(twin[0]) == len(twin)


def _entries_moved_by_the_row(plain: Sequence[Seen], twin: Sequence[Seen]) -> Any:
    """Return the places in arrays of one type and shape whose bytes no noise has moved, but the row has."""
    every = [*plain, *twin]
    if not all(seen.width and len(seen.value) == len(plain[0].value) for seen in every) or not plain[0].value:
        return ()
    ones, others = (
        np.stack([np.frombuffer(seen.value, np.uint8).reshape(-1, seen.width) for seen in some])
        for some in (plain, twin)
    )
    still = (ones == ones[0]).all(axis=(0, 2)) & (others == others[0]).all(axis=(0, 2))
    return np.flatnonzero(still & (ones[0] != others[0]).any(axis=1))


def _shown(seen: Seen) -> str:
    """Return a value as a reader writes it: a number, or the numbers of an array."""
    text = seen.value if isinstance(seen.value, str) else repr(seen.value)  # a text is how a number looks already
    of_numpy = _OF_NUMPY.fullmatch(text)
    text = text if of_numpy is None else of_numpy[1] or of_numpy[2]
    dtype = re.fullmatch(r"\S+ (\S+) of \d+ dimensions", seen.kind) if seen.width else None
    if dtype is not None and re.fullmatch(r"[<>=|]?(u?int\d+|float\d+|[uif]\d+|bool)", dtype[1]):
        entries = np.frombuffer(seen.value, np.dtype(dtype[1]))
        text = " ".join(f"{entry:.6g}" if entries.dtype.kind == "f" else str(entry) for entry in entries)
    return text if len(text) < 120 else f"{text[:117]}..."


def observed(action: Callable[[], Any], stream: int) -> tuple[Seen, Any]:
    """Run an action under a stream of bits, in an empty working folder: return all that it shows, and its result."""
    printed, returned = io.StringIO(), None
    usual, folder = tempfile.tempdir, os.path.join(tempfile.gettempdir(), f"dpsk-twins-{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "temporary"))  # of one name for all runs, since messages tell it
    try:
        with (
            chdir(folder),
            warnings.catch_warnings(record=True) as warned,
            redirect_stdout(printed),
            redirect_stderr(printed),
            _logged(printed),
            replayed(stream),
            as_in_a_new_process(),
        ):
            warnings.simplefilter("always")
            tempfile.tempdir = os.path.join(folder, "temporary")
            try:
                returned = action()
                raised = Seen("none")
            except Exception as error:
                raised = Seen(" <- ".join(_errors(error)))
        channels = {
            "exception": raised,
            "warnings": Seen(
                "\n".join(
                    f"{one.category.__qualname__}: {_steady(str(one.message))} ({one.filename})" for one in warned
                )
            ),
            "printed lines": _lines(printed.getvalue()),
            "result ": _seen(returned, set()),
            "pickle ": _pickled(returned),
            "files ": _files(Path(folder)),
        }
    finally:
        tempfile.tempdir = usual
        shutil.rmtree(folder, ignore_errors=True)
    return Seen("run", parts=channels), returned


@contextmanager
def _logged(lines: io.StringIO) -> Iterator[None]:
    """Record messages of loggers, of all levels, as lines too."""
    root, own, handler = logging.getLogger(), logging.getLogger("dpsk"), logging.StreamHandler(lines)
    levels = root.level, own.level
    root.addHandler(handler)
    for logger in (root, own):  # whatever somebody has switched off
        logger.setLevel(1)
    try:
        yield
    finally:
        for logger, level in zip((root, own), levels, strict=True):
            logger.setLevel(level)
        root.removeHandler(handler)


def _errors(error: BaseException | None) -> Iterator[str]:
    """Yield an exception and its causes and contexts: whoever catches it sees them all."""
    if error is not None:
        yield f"{type(error).__qualname__}: {_steady(str(error))}"
        yield from _errors(error.__cause__)
        if error.__context__ is not error.__cause__:
            yield from _errors(error.__context__)


_UNSTEADY = [
    # the random names of ledgers (uuid4), and no other numbers of so many digits, which might be computed from rows
    (re.compile(r"\b[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}\b"), "<name>"),
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "<address>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d)?"), "<time>"),
]
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)")


def _steady(text: str) -> str:
    """Return a text without the parts that differ in every run: random names, addresses, times."""
    for pattern, name in _UNSTEADY:
        text = pattern.sub(name, text)
    return text


def _text(text: str) -> Seen:
    text = _steady(text)
    numbers = [Seen("number", number) for number in _NUMBER.findall(text)]
    return Seen(f"text {without_numbers(text)}", items=numbers)


def without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


def _lines(text: str) -> Seen:
    """Return which lines were printed, up to numbers: how often depends on how many steps the noise led to."""
    lines = [_text(line) for line in text.splitlines()]
    kinds = dict.fromkeys(line.kind for line in lines)
    return Seen(
        "lines", parts={f" {kind}": Seen("", items=[line for line in lines if line.kind == kind]) for kind in kinds}
    )


def _files(folder: Path) -> Seen:
    found, temporary = dict[str, Seen](), 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == "temporary":
            continue
        if name.startswith("temporary/"):
            temporary += 1
            name = f"temporary {temporary}{path.suffix}"
        found[name] = Seen("folder") if path.is_dir() else _content(path)
    return Seen("folder", parts=found)


def _content(path: Path) -> Seen:
    content = path.read_bytes()
    if content[:16] != b"SQLite format 3\0" or content[68:72] != b"dpsk":
        try:
            return _lines(content.decode())
        except UnicodeDecodeError:
            return Seen("file", content)
    rows = [vars(row) for row in PrivacyLedger(path).history()]
    timeless = [{name: at for name, at in row.items() if name not in ("started", "ended")} for row in rows]
    return Seen("ledger", items=[_seen(row, set()) for row in timeless])


def _pickled(thing: Any) -> Seen:
    """Return which classes and functions a pickle names; what stands in it is seen in the thing itself."""
    named = set[str]()

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            named.add(f"{module}.{name}")
            return super().find_class(module, name)

    try:
        Reader(io.BytesIO(pickle.dumps(thing))).load()
    except Exception as error:
        return Seen(f"none: {type(error).__qualname__}")
    return Seen("pickle", parts={name: Seen("name") for name in named})


def _seen(thing: Any, above: set[int]) -> Seen:
    """Return how a thing looks: its attributes, and what a pickle of it would hold."""
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if isinstance(thing, types.NoneType | types.EllipsisType):
        return Seen(kind)
    if isinstance(thing, str):
        return _text(thing)
    if isinstance(thing, bool | int | float | complex | bytes | np.generic):
        return Seen(kind, repr(thing), loose=True)
    if id(thing) in above:
        return Seen(f"{kind}, again")
    above = above | {id(thing)}
    if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        return _seen_code(thing, kind, above)
    if isinstance(thing, np.ndarray):
        return _seen_array(thing, kind, above)
    if type(thing) is dict:
        parts = {f"[{_steady(repr(key))}]": _seen(value, above) for key, value in thing.items()}
        return Seen(kind, sorted(parts), parts, loose=True)
    if isinstance(thing, set | frozenset):
        return Seen(kind, items=[_seen(entry, above) for entry in sorted(thing, key=repr)])
    held = {} if type(thing) in (list, tuple) else _attributes(thing)
    items = [_seen(entry, above) for entry in thing] if isinstance(thing, list | tuple) else None
    return Seen(kind, parts={f".{name}": _seen(value, above) for name, value in held.items()}, items=items)


def _seen_array(thing: Any, kind: str, above: set[int]) -> Seen:
    if thing.dtype.kind in "OUV":
        return Seen(f"{kind} {thing.dtype}", thing.shape, items=[_seen(entry, above) for entry in thing.ravel()])
    shape = {" shape": Seen("shape", thing.shape)}
    return Seen(f"{kind} {thing.dtype} of {thing.ndim} dimensions", thing.tobytes(), shape, width=thing.itemsize)


def _seen_code(thing: Any, kind: str, above: set[int]) -> Seen:
    """Return how a class, a function or a module looks: its name, and what a function carries along."""
    inside = {f"[{k}]": _cell(cell, above) for k, cell in enumerate(getattr(thing, "__closure__", None) or ())}
    if isinstance(thing, types.FunctionType):
        inside["<own>"] = _seen((thing.__defaults__, thing.__kwdefaults__, thing.__dict__), above)
    return Seen(f"{kind} {getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}", parts=inside)


def _cell(cell: Any, above: set[int]) -> Seen:
    try:
        return _seen(cell.cell_contents, above)
    except ValueError:
        return Seen("empty")


def _attributes(thing: Any) -> dict[str, Any]:
    """Return what an object holds: its attributes, those that are computed, and what its pickle is made from."""
    found = dict[str, Any]()
    try:
        reduced = thing.__reduce_ex__(4)
    except Exception as error:
        reduced = (type(error),)
    if isinstance(reduced, tuple):
        made_from, state = tuple(reduced[:2]), reduced[2] if len(reduced) > 2 else None
        found["<made from>"] = made_from
        if isinstance(state, dict):
            found |= {str(name): value for name, value in state.items()}
        else:
            found["<state>"] = state
        found["<entries>"] = tuple(list(entries) for entries in reduced[3:5] if entries is not None)
    found |= getattr(thing, "__dict__", {})
    for name in dir(type(thing)):
        if name.endswith("_") and not name.startswith("_") and isinstance(getattr(type(thing), name), property):
            try:
                found[name] = getattr(thing, name)
            except Exception as error:
                found[name] = type(error)
    return found
