"""How a table becomes numbers on a grid, and the way back for coefficients."""

from .encoding import Encoding
from .numeric import LinearEncoding
from .weighting import Weighting

__all__ = ["Encoding", "LinearEncoding", "Weighting"]
