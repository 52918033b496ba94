"""What is compared: configurations by name, and what the papers call them."""

from __future__ import annotations

from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from dpsk import (
    DPAGDSVC,
    DPAGDLogisticRegression,
    DPLinearSVC,
    DPLineSearchClassifier,
    DPLogisticRegression,
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    OutputPerturbationLogisticRegression,
    OutputPerturbationSVC,
)

from .solvers.composed_sgd import SGDMA, SGDAdv
from .solvers.gradient_output import OutputGradientDescent, PermutedGradientDescent, RandomizedSensitivity
from .solvers.objective_perturbation import ApproximateMinima, GaussianObjective, PureObjective
from .solvers.privgene import PrivGeneClassifier

DATASETS = ("adult", "bank", "ipums_br")
EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
ALPHA = 1e-3

PAPER = {"conversion": "paper", "first_noise": None}
# Chen & Lee (2020) with sound prices: what they leave open (steps tried) is ours
BLSGD_PAPER = {
    "splits": 50, "first_price": "paper", "search_share": 1.0, "gradient_clip": 3.0, "loss_clip": 1.0,
    "gains": "clipped",
}  # fmt: skip
STANDARDISED = {"bounds": (0, 1), "standardize": "private"}
# numbers of steps and their length were chosen on one fold of Adult, without privacy, as the papers' own
ADV, MA = {"steps": 50, "learning_rate": 3.0}, {"steps": 2000, "learning_rate": 1.0}
CONFIGURATIONS = {
    "default": DPLogisticRegression(bounds=(0, 1)),
    "default, no bounds": DPLogisticRegression(),
    "DP-AGD standardised": DPLogisticRegression(bounds=(0, 1), solver="adaptive-gradient"),
    "default SVM": DPLinearSVC(bounds=(0, 1)),
    "DP-AGD": DPAGDLogisticRegression(alpha=ALPHA),
    "DP-AGD paper + laplace": DPAGDLogisticRegression(alpha=ALPHA, selection="laplace", **PAPER),
    "DP-AGD paper's prices": DPAGDLogisticRegression(alpha=ALPHA, first_noise=None),
    "DP-AGD SVM": DPAGDSVC(alpha=ALPHA),
    "DP-AGD SVM paper + laplace": DPAGDSVC(alpha=ALPHA, selection="laplace", **PAPER),
    "line search": DPLineSearchClassifier(alpha=ALPHA),
    "line search AC": DPLineSearchClassifier(alpha=ALPHA, clip_decay=0.05),
    "line search all rows": DPLineSearchClassifier(alpha=ALPHA, sampling_rate=1.0),
    "line search exponential": DPLineSearchClassifier(alpha=ALPHA, search="exponential"),
    "line search paper": DPLineSearchClassifier(alpha=ALPHA, **BLSGD_PAPER),
    "line search standardised": DPLineSearchClassifier(standardize="private", bounds=(0, 1), step_max=1.0),
    "DP-SGD": DPSGDClassifier(),
    "DP-Adam": DPSGDClassifier(optimizer="adam"),
    "line search SVM": DPLineSearchClassifier(alpha=ALPHA, loss="hinge"),
    "line search SVM AC": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", clip_decay=0.05),
    "line search SVM all rows": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", sampling_rate=1.0),
    "line search SVM Huber": DPLineSearchClassifier(alpha=ALPHA, loss="huber_hinge"),
    "line search SVM paper": DPLineSearchClassifier(alpha=ALPHA, loss="hinge", **BLSGD_PAPER),
    "DP-SGD SVM": DPSGDClassifier(loss="hinge"),
    "DP-Adam SVM": DPSGDClassifier(loss="hinge", optimizer="adam"),
    "objective perturbation": ObjectivePerturbationClassifier(bounds=(0, 1)),
    "objective perturbation SVM": ObjectivePerturbationClassifier(bounds=(0, 1), loss="huber_hinge"),
    "objective perturbation, no clip": ObjectivePerturbationClassifier(bounds=(0, 1), gradient_clip=1e6),
    "objective perturbation 2011": PureObjective(),
    "objective perturbation 2012": GaussianObjective(),
    "AMP": ApproximateMinima(),
    "objective perturbation 2011 SVM": PureObjective(loss="huber_hinge"),
    "objective perturbation 2012 SVM": GaussianObjective(loss="huber_hinge"),
    "AMP SVM": ApproximateMinima(loss="huber_hinge"),
    "PrivGene": PrivGeneClassifier(),
    "PrivGene SVM": PrivGeneClassifier(loss="hinge"),
    "SGD-Adv": SGDAdv(**ADV),
    "SGD-Adv SVM": SGDAdv(loss="hinge", **ADV),
    "SGD-MA": SGDMA(**MA),
    "SGD-MA SVM": SGDMA(loss="hinge", **MA),
    "SGD-MA, all moments": SGDMA(**MA, all_moments=True),
    "SGD-MA SVM, all moments": SGDMA(loss="hinge", **MA, all_moments=True),
    "output perturbation": OutputPerturbationLogisticRegression(**STANDARDISED),
    "output perturbation, paper's noise": OutputPerturbationLogisticRegression(**STANDARDISED, noise="paper"),
    "output perturbation SVM": OutputPerturbationSVC(**STANDARDISED),
    "output perturbation, rows within 1": OutputPerturbationLogisticRegression(),
    "output perturbation 2017, GD": OutputGradientDescent(),
    "output perturbation 2017, permuted SGD": PermutedGradientDescent(),
    "output perturbation 2019, RSGD": RandomizedSensitivity(),
    "output perturbation 2017, GD SVM": OutputGradientDescent(loss="huber_hinge"),
    "output perturbation 2017, permuted SGD SVM": PermutedGradientDescent(loss="huber_hinge"),
    "output perturbation 2019, RSGD SVM": RandomizedSensitivity(loss="huber_hinge"),
}
PURE = ", delta = 0"
"""What is added to the name of a configuration in rows that were run with delta = 0."""
BASELINES = {  # without noise, and without any guarantee: the majority is an exact fact of the data, too
    "not private": LogisticRegression(C=1.0, max_iter=2000),
    "not private SVM": LinearSVC(C=1.0, max_iter=20_000),
    "majority": DummyClassifier(),
    # the minimisers of the objective that is recorded; C is set for the number of rows
    "not private, alpha 1e-3": LogisticRegression(max_iter=2000),
    "not private SVM, alpha 1e-3": LinearSVC(loss="hinge", intercept_scaling=30, max_iter=200_000),
}
# what a line is called, and the configurations that it stands for: logistic regression, linear SVM
METHODS = {
    "default": ("default", "default SVM"),
    "DP-AGD, as published": ("DP-AGD paper + laplace", "DP-AGD SVM paper + laplace"),
    "DP-AGD, ours": ("DP-AGD", "DP-AGD SVM"),
    "ObjPert 2011": ("objective perturbation 2011", "objective perturbation 2011 SVM"),
    "ObjPert 2012": ("objective perturbation 2012", "objective perturbation 2012 SVM"),
    "AMP 2019": ("AMP", "AMP SVM"),
    "PrivGene": ("PrivGene", "PrivGene SVM"),
    "SGD-Adv": ("SGD-Adv", "SGD-Adv SVM"),
    "SGD-MA": ("SGD-MA", "SGD-MA SVM"),
    "SGD-MA, all moments": ("SGD-MA, all moments", "SGD-MA SVM, all moments"),
    "DP-BLSGD, as published": ("line search paper", "line search SVM paper"),
    "DP-BLSGD, ours": ("line search", "line search SVM"),
    "DP-BLSGD-AC, ours": ("line search AC", "line search SVM AC"),
    "DP-BLGD, ours": ("line search all rows", "line search SVM all rows"),
    "DP-SGD": ("DP-SGD", "DP-SGD SVM"),
    "DP-Adam": ("DP-Adam", "DP-Adam SVM"),
    "objective perturbation, ours": ("objective perturbation", "objective perturbation SVM"),
    "output perturbation, ours": ("output perturbation", "output perturbation SVM"),
    "OutPert-GD 2017": ("output perturbation 2017, GD", "output perturbation 2017, GD SVM"),
    "permuted SGD 2017": ("output perturbation 2017, permuted SGD", "output perturbation 2017, permuted SGD SVM"),
    "OutPert-RSGD 2019": ("output perturbation 2019, RSGD", "output perturbation 2019, RSGD SVM"),
}
LEE_KIFER = (
    "default", "DP-AGD, as published", "DP-AGD, ours", "ObjPert 2011", "ObjPert 2012", "PrivGene", "SGD-Adv", "SGD-MA",
    "SGD-MA, all moments", "objective perturbation, ours", "OutPert-GD 2017",
)  # fmt: skip
CHEN_LEE = (
    "default", "DP-BLSGD, as published", "DP-BLSGD, ours", "DP-BLSGD-AC, ours", "DP-BLGD, ours", "DP-AGD, as published",
    "DP-SGD", "DP-Adam", "ObjPert 2011", "ObjPert 2012", "PrivGene", "objective perturbation, ours",
    "output perturbation, ours", "OutPert-GD 2017", "permuted SGD 2017", "OutPert-RSGD 2019",
)  # fmt: skip
KINDS = ("logistic regression", "linear SVM")


# lines of the picture of KDDCup99 and their configurations: all rows are drawn through, batches dashed
KDD_LINES = {
    "default": "default", "DP-AGD, as published": "DP-AGD paper + laplace", "DP-AGD, ours": "DP-AGD",
    "objective perturbation, ours": "objective perturbation", "DP-SGD": "DP-SGD", "SGD-Adv": "SGD-Adv",
    "SGD-MA": "SGD-MA", "PrivGene": "PrivGene",
}  # fmt: skip


def kdd_name(name: str, kind: int, batches: bool = False) -> str:
    """Return the configuration of a line on KDDCup99."""
    return METHODS[name][kind] + (", batches" if batches else "")
