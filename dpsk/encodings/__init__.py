"""How a table becomes numbers on a grid, and the way back for coefficients."""

from .numeric import LinearEncoding

__all__ = ["LinearEncoding"]
