"""Memory that a thread uses again and again: new memory costs more than what is computed in it."""

import math
import threading

import numpy as np

from ..mechanisms.samplers import Floats

_KEPT = 2**22  # numbers that are kept for a thread at most


class ThreadMemory(threading.local):
    """One piece of memory for each thread. An array in it is valid until the thread asks for the next one."""

    _numbers: Floats = np.empty(0)

    def empty(self, *shape: int) -> Floats:
        """Return an array of this shape with arbitrary numbers in it."""
        size = math.prod(shape)
        if size > _KEPT:
            return np.empty(shape)
        if size > self._numbers.size:
            self._numbers = np.empty(size)
        return self._numbers[:size].reshape(shape)

    def zeros(self, *shape: int) -> Floats:
        """Return an array of zeros of this shape."""
        if math.prod(shape) > _KEPT:
            return np.zeros(shape)
        found = self.empty(*shape)
        found[...] = 0
        return found
