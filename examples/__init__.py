"""Examples, each a script of its own; ``scattering.py`` is a module that an example and a benchmark share."""
