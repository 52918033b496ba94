"""How a table becomes numbers on a grid, and the way back for coefficients."""

from .encoding import Encoding
from .numeric import LinearEncoding

__all__ = ["Encoding", "LinearEncoding"]
