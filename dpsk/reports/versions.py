"""Versions of what a result rests on."""

import platform
from importlib.metadata import PackageNotFoundError, version


def installed_versions() -> dict[str, str]:
    """Return the versions of dpsk, its dependencies and Python, by name."""
    found = {}
    for name, package in (("dpsk", "dpsk"), ("scikit-learn", "scikit-learn"), ("NumPy", "numpy"), ("SciPy", "scipy")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:  # a checkout that was never installed
            found[name] = "unknown"
    return {**found, "Python": platform.python_version()}
