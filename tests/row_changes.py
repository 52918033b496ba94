"""How much of what a query promises one row's change reaches, in exact integers."""

import math


def fractions(query, adjacency, change):
    """Return the fraction of each promised norm that this change of the sums reaches; none may be above 1."""
    promised, change = query.sensitivity(adjacency), [int(c) for c in change.ravel()]
    sizes = {"l1": sum(map(abs, change)), "l2": math.sqrt(sum(c * c for c in change)), "linf": max(map(abs, change))}
    reached = {(adjacency, norm): size / getattr(promised, norm) for norm, size in sizes.items()}
    assert max(reached.values()) <= 1 + 1e-13, f"one row moved {query.label} by {sizes} ({adjacency})"
    if promised.monotone:
        assert adjacency == "zero-out"
        assert min(change) >= 0
    return reached
