"""Benchmarks: what is measured, the rows that were measured, and the reports that are filled in from them.

- ``experiments/`` has one module per experiment: its cells, how one is measured, and its report. All are registered in
  ``experiments/__init__.py``. ``templates/`` has the texts of the reports, ``results/`` the rows and the reports.
- ``table.py`` holds rows, ``experiment.py`` fills in templates, ``__main__.py`` is the command line.
- ``datasets.py``, ``methods.py``, ``folds.py``, ``timing.py`` and ``known_risks.py`` are what is measured and how.
- ``measured.py``, ``evidence.py`` and ``claims/`` check what the papers say. ``index.py`` writes the index.
- ``solvers/`` has algorithms of other papers. ``inside.py`` is the only place that imports the inside of dpsk.
"""

import warnings

from dpsk import NotPrivateWarning

# Fits are seeded, so that anybody gets these numbers. What is fitted are public data, and no model is released.
warnings.simplefilter("ignore", NotPrivateWarning)
