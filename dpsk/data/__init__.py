"""Private rows on exact grids, and the one door through which anything leaves."""

from .private import PrivateData, Query, Sealed
from .rows import ArrayRows, Chunk, Kernel, Rows

__all__ = ["ArrayRows", "Chunk", "Kernel", "PrivateData", "Query", "Rows", "Sealed"]
