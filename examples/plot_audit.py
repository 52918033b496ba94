"""An audit: attack two classifiers that promise the same, and see which promise is false.

The second one is the first with a mistake that is easily made: it keeps the exact number of rows of each class, as many
classifiers do. The audit finds that in seconds, and says where. Draws the claim beside what is proved of the first one
if a file name is given.
"""

import sys

import numpy as np

from dpsk import DPLogisticRegression, audit


class Counting(DPLogisticRegression):
    """A private classifier, but for one attribute."""

    def fit(self, X, y, sample_weight=None, groups=None):
        super().fit(X, y, sample_weight=sample_weight, groups=groups)
        self.class_count_ = np.unique(y, return_counts=True)[1]
        return self


honest = audit(DPLogisticRegression(epsilon=1.0, delta=1e-6), seconds=15)
print(honest.statement(), "\n")

broken = audit(Counting(epsilon=1.0, delta=1e-6), attacks=["transcript"], seconds=15)
print(broken.statement(), "\n")

for name, result in (("plain", honest), ("counting", broken)):
    print(f"{name:10} refuted: {result.refuted}, proved: epsilon >= {result.epsilon:.2f} of {result.claim.epsilon:g}")

if len(sys.argv) > 1:
    honest.plot().figure_.savefig(sys.argv[1], bbox_inches="tight")
