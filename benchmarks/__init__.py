"""Benchmarks: scripts that print what they measured."""

import warnings

from dpsk import NotPrivateWarning

# fits are seeded, so that anybody gets these numbers; what is fitted are public data, and no model is released
warnings.simplefilter("ignore", NotPrivateWarning)
