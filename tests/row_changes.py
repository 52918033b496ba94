"""How much of what a query promises one row's change reaches, in exact integers."""

import math
from fractions import Fraction


def fractions(query, adjacency, change):
    """Return the fraction of each promised norm that this change of the sums reaches; none may be above 1."""
    promised, change = query.sensitivity(adjacency), [int(c) for c in change.ravel()]
    square = sum(c * c for c in change)
    sizes = {"l1": sum(map(abs, change)), "l2": math.sqrt(square), "linf": max(map(abs, change))}
    reached = {(adjacency, norm): size / getattr(promised, norm) for norm, size in sizes.items()}
    holds = sizes["l1"] <= promised.l1 and sizes["linf"] <= promised.linf and square <= Fraction(promised.l2) ** 2
    assert holds, f"one row moved {query.label} by {sizes} ({adjacency})"
    if promised.monotone:
        assert adjacency == "zero-out"
        assert min(change) >= 0
    return reached
