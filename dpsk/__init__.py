"""Differentially private classifiers that are real scikit-learn estimators."""
