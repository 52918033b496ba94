"""The unit of protection: a row, or a person with all rows that have the same id."""

from __future__ import annotations

import re
from typing import Any

ROW = "row"
"""The unit of a fit without ids."""


class Nameless(str):
    """The name in reports of a unit whose ids have none: it may be any unit but the row."""


PERSON = Nameless("person")
"""The unit of a fit whose ids are an array (``groups``). A column may have that name, too: it is then a name."""


def as_unit(value: Any) -> str:
    """Return the name of a unit; raise ValueError if it cannot be one."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"unit={value!r} must be a name, such as 'row' or 'patient'")
    return str(value)


def unit_of(group_column: Any, *, grouped: bool) -> str:
    """Return the unit of a fit whose ids are in ``group_column``, or (``grouped``) in an array, or nowhere."""
    if group_column is None:
        return PERSON if grouped else ROW
    if group_column == ROW:
        raise ValueError(
            f"group_column={ROW!r} is the name of the unit of fits without ids, so a report or a ledger could not tell "
            "the two: give the column another name"
        )
    return as_unit(group_column)


def require_same_unit(label: str, unit: str, held: str) -> None:
    """Raise ValueError unless a fit that protects ``unit`` may count in a budget that protects ``held``.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 12.10)
    Only promises for the same unit add up. Ids in an array have no name: they may be those of any unit but the row.
    """
    if unit == held or (isinstance(unit, Nameless) and held != ROW):
        return
    if unit == ROW:
        why = f"what protects single rows promises too little for one {held} with several rows"
        remedy = (
            f"Give the ids, as group_column={held!r} or as groups. (scikit-learn's searches and cross_val_score pass "
            "groups on to fits with metadata routing only: docs/persons.md)"
        )
    elif held == ROW:
        why = f"the weight of a row depends on the other rows of its {unit}, so nothing is promised for single rows"
        remedy = f"Keep another ledger, created with unit={unit!r}, for all fits on these data, or leave the ids out"
    else:
        why = "two different promises do not add up"
        remedy = f"Give the ids of {held!r}, or keep another ledger with unit={unit!r}"
    raise ValueError(f"{label} has the unit of protection {unit!r}, and the ledger has {held!r}: {why}. {remedy}")


def definition(unit: str) -> str:
    """Return what one unit is, for the middle of a sentence."""
    if unit == ROW:
        return "one row"
    return f"one {unit}: all rows with the same id"


def several(unit: str) -> str:
    """Return the plural."""
    if re.search(r"(s|x|z|ch|sh)$", unit):
        return f"{unit}es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", unit) + "s"


def group_protected_less(unit: str) -> str:
    """Return the beginning of a sentence: for whom a guarantee is weaker."""
    return "A person who contributed several rows is" if unit == ROW else f"Two {several(unit)} together are"
