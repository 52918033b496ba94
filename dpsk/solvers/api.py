"""Everything of dpsk that a solver may import. :func:`dpsk.testing.find_peeks` reads this list, and no other."""

from ..calibration import Curve, Known, Temperature, curve
from ..data import Columns, Facts
from ..data.private import Batch, PrivateData, SealedRows
from ..losses import Logistic, Loss, Softmax
from ..mechanisms import (
    AboveThreshold,
    ArgMin,
    Gaussian,
    Laplace,
    Mechanism,
    NoisyMin,
    NormGamma,
    PermuteAndFlip,
    SymmetricGaussian,
)
from ..mechanisms.mechanism import Sensitivity
from ..mechanisms.samplers import Floats, Integers
from ..minimizers import (
    AttackedSum,
    Minimizer,
    PerturbedMinima,
    RegularizedSum,
    SampledWeights,
    TiltedSum,
    largest_curvature,
    require_perturbable,
    slope_at_zero,
)
from ..minimizers.descent import METHODS
from ..objectives import LinearObjective, NetworkObjective, Objective
from ..penalties import Penalty, stable_step
from ..privacy import ZCDP, Budget, BudgetExhausted, Cost, Currency, GaussianDP, ObjectiveDP, PureDP, RenyiDP, Sampling
from ..privacy.neighbours import Adjacency
from ..queries import (
    ArmijoGains,
    ClassCounts,
    GradientSum,
    HessianSum,
    LossesAlong,
    Magnitudes,
    Moments,
    Outcomes,
    Positions,
    RowNorms,
)
from ..requirements import choice, clip, flag, integer, number, part
from .certificate import Certificate, failure_of, gaussian_norm, largest_eigenvalue, sampling_error
from .descent_noise import DescentNoise, Trace, first_averaged, tapered
from .eigen import smallest_eigenpair
from .gradient_descent import GradientDescent
from .precision import deviation, gradient_precision, share_of_noise, typical_norm
from .sampled import SampledSolver
from .solver import Diagnostics, Iterates, Solver
from .step_search import Along, Backtracking, Comparison, Search

__all__ = [
    "METHODS", "ZCDP", "AboveThreshold", "Adjacency", "Along", "ArgMin", "ArmijoGains", "AttackedSum",
    "Backtracking", "Batch", "Budget", "BudgetExhausted", "Certificate", "ClassCounts", "Columns", "Comparison",
    "Cost", "Currency", "Curve", "DescentNoise", "Diagnostics", "Facts", "Floats", "Gaussian", "GaussianDP",
    "GradientDescent", "GradientSum", "HessianSum", "Integers", "Iterates", "Known", "Laplace", "LinearObjective",
    "Logistic", "Loss", "LossesAlong", "Magnitudes", "Mechanism", "Minimizer", "Moments", "NetworkObjective",
    "NoisyMin", "NormGamma", "Objective", "ObjectiveDP", "Outcomes", "Penalty", "PermuteAndFlip", "PerturbedMinima",
    "Positions", "PrivateData", "PureDP", "RegularizedSum", "RenyiDP", "RowNorms", "SampledSolver",
    "SampledWeights", "Sampling", "SealedRows", "Search", "Sensitivity", "Softmax", "Solver", "SymmetricGaussian",
    "Temperature", "TiltedSum", "Trace", "choice", "clip", "curve", "deviation", "failure_of", "first_averaged",
    "flag", "gaussian_norm", "gradient_precision", "integer", "largest_curvature", "largest_eigenvalue", "number",
    "part", "require_perturbable", "sampling_error", "share_of_noise", "slope_at_zero", "smallest_eigenpair",
    "stable_step", "tapered", "typical_norm",
]  # fmt: skip
