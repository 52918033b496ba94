"""Docstrings of estimators, put together: every parameter is described once, by the class that declares it."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from typing import Any

_DESCRIBED = ("Parameters", "Attributes")


@dataclass(frozen=True)
class Entry:
    """The description of one parameter or attribute, or of several together."""

    names: tuple[str, ...]
    type: str
    text: str


def documented(cls: Any) -> str:
    """Return the docstring of an estimator: its own text, with the descriptions of all its parameters and attributes.

    A description is looked up in the class, its bases, and the classes in ``_described_by`` (its solvers), in this
    order. Defaults are those of the constructor.
    """
    own = _sections(cls)
    sources = [_sections(base) for base in (*cls.__mro__, *cls._described_by)]
    parts = [own.pop("", "")]
    parameters = "\n".join(_described(list(_in_order(cls)), [source.get("Parameters", "") for source in sources]))
    attributes = "\n".join(text for source in sources[::-1] if (text := source.get("Attributes", "")))
    for title, text in (("Parameters", parameters), ("Attributes", attributes)):
        parts.append(f"{title}\n{'-' * len(title)}\n{text}")
    parts += [f"{title}\n{'-' * len(title)}\n{text}" for title, text in own.items() if title not in _DESCRIBED]
    return "\n\n".join(part for part in parts if part)


def _sections(cls: Any) -> dict[str, str]:
    """Return what the author wrote of a class, by the titles of sections; the text before them has no title."""
    written = inspect.cleandoc(vars(cls).get("_written", vars(cls).get("__doc__")) or "")
    pieces = re.split(r"^(\w[\w ]*)\n-{3,}\n", written, flags=re.MULTILINE)
    return {"": pieces[0].strip()} | {
        title: text.strip("\n") for title, text in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def _in_order(cls: Any) -> Iterator[Field[Any]]:
    """Yield the parameters: the budget, then those of the class itself, then those of its bases."""
    known = {field.name: field for field in fields(cls)}
    order = ["epsilon", "delta", *(name for base in cls.__mro__ for name in vars(base).get("__annotations__", {}))]
    yield from (known[name] for name in dict.fromkeys(order) if name in known)


def _described(parameters: list[Field[Any]], sources: list[str]) -> Iterator[str]:
    entries = {name: entry for source in sources[::-1] for entry in _entries(source) for name in entry.names}
    defaults = {field.name: field.default for field in parameters}
    while parameters:
        entry = entries.get(parameters[0].name)
        if entry is None:  # described by nobody
            entry = Entry((parameters[0].name,), "not described", "")
            entries[parameters[0].name] = entry
        names = [name for name in entry.names if name in defaults and entries[name] is entry]
        values = [repr(defaults[name]).replace("'", '"') for name in names]
        both = " and ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
        yield f"{', '.join(names)} : {entry.type}, default={both}\n{entry.text}"
        parameters = [field for field in parameters if field.name not in names]


def _entries(source: str) -> Iterator[Entry]:
    pieces = re.split(r"^(\w[\w, ]*?) : (.*)$", source, flags=re.MULTILINE)
    for names, kind, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield Entry(tuple(names.split(", ")), kind, text.strip("\n"))
