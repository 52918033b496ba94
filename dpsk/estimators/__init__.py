"""scikit-learn classifiers: parameters and a plan each."""

from .adaptive_gradient_classifiers import DPAGDSVC, DPAGDLogisticRegression
from .budgets import WithExactModel, WithRho, budget_of
from .classifier import PrivateClassifier
from .convolutional_classifier import DPConvolutionalClassifier
from .default_classifiers import DPLinearSVC, DPLogisticRegression
from .effects import Effect, Effects
from .effects_display import EffectsDisplay
from .exported import Exported, register_onnx
from .gradient_descent_classifier import DPGradientDescentClassifier
from .line_search_classifier import DPLineSearchClassifier
from .linear_classifier import LinearClassifier
from .mlp_classifier import DPMLPClassifier
from .network_classifier import NetworkClassifier
from .numeric_classifier import NumericClassifier
from .objective_perturbation_classifier import ObjectivePerturbationClassifier
from .output_perturbation_classifiers import OutputPerturbationLogisticRegression, OutputPerturbationSVC
from .plan import Plan, l2_of, plan_of, with_parameters_of
from .probabilities import LossNamed, Probabilities, ProbabilitiesOfLogLoss
from .sampled_classifier import SampledClassifier
from .second_order_classifier import DPSecondOrderClassifier
from .sgd_classifier import DPSGDClassifier
from .tabular_classifier import DPTabularClassifier
from .tabular_encoder import TabularEncoder

__all__ = [
    "DPAGDSVC", "DPAGDLogisticRegression", "DPConvolutionalClassifier", "DPGradientDescentClassifier",
    "DPLineSearchClassifier", "DPLinearSVC",
    "DPLogisticRegression", "DPMLPClassifier", "DPSGDClassifier", "DPSecondOrderClassifier", "DPTabularClassifier",
    "Effect", "Effects", "EffectsDisplay", "Exported", "LinearClassifier", "LossNamed", "NetworkClassifier",
    "NumericClassifier", "ObjectivePerturbationClassifier", "OutputPerturbationLogisticRegression",
    "OutputPerturbationSVC", "Plan", "PrivateClassifier", "Probabilities", "ProbabilitiesOfLogLoss",
    "SampledClassifier", "TabularEncoder", "WithExactModel", "WithRho", "budget_of", "l2_of", "plan_of",
    "register_onnx", "with_parameters_of",
]  # fmt: skip
