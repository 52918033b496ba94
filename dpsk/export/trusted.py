"""The classes in files of skops: what ``skops.io.load`` has to trust to load a model of dpsk."""

_CLASSES = {
    "calibration.maps": ["Curve", "Temperature"],
    "data.columns": ["Columns"],
    "data.features": ["CategoryFeatures", "FeatureMoments", "Features", "QuantityFeatures", "WordFeatures"],
    "data.fields": ["Found", "Listed", "Quantity", "Words"],
    "data.kinds": ["Categories", "Date", "Number", "Text"],
    "data.schema": ["Schema"],
    "data.waves": ["Waves"],
    "estimators.adaptive_gradient_classifiers": ["DPAGDLogisticRegression", "DPAGDSVC"],
    "estimators.default_classifiers": ["DPLinearSVC", "DPLogisticRegression"],
    "estimators.gradient_descent_classifier": ["DPGradientDescentClassifier"],
    "estimators.line_search_classifier": ["DPLineSearchClassifier"],
    "estimators.objective_perturbation_classifier": ["ObjectivePerturbationClassifier"],
    "estimators.output_perturbation_classifiers": ["OutputPerturbationLogisticRegression", "OutputPerturbationSVC"],
    "estimators.second_order_classifier": ["DPSecondOrderClassifier"],
    "estimators.sgd_classifier": ["DPSGDClassifier"],
    "estimators.tabular_classifier": ["DPTabularClassifier"],
    "estimators.tabular_encoder": ["TabularEncoder"],
    "evaluation.adjusted": ["PrivateCalibration", "PrivateThreshold"],
    "evaluation.evidence": ["Estimate"],
    "model_selection.independent_rows": ["IndependentRows"],
    "model_selection.search": ["PrivateSearchCV"],
    "pipelines.private_pipeline": ["PrivatePipeline"],
    "privacy.currencies": ["GaussianDP", "PureDP", "RenyiDP", "ZCDP"],
    "privacy.discovery": ["Discovery"],
    "privacy.durable.store": ["PrivacyLedger"],
    "privacy.ledger": ["Release"],
    "privacy.perturbation": ["ObjectiveDP"],
    "privacy.pld": ["PlannedSteps"],
    "privacy.repetition": ["BestOf", "Poisson", "TruncatedNegativeBinomial", "Within"],
    "privacy.report": ["PrivacySpent"],
    "solvers.certificate": ["Certificate"],
    "solvers.descent_noise": ["DescentNoise", "Trace"],
}

TRUSTED_TYPES: list[str] = [f"dpsk.{module}.{name}" for module, names in _CLASSES.items() for name in names]
"""All classes of dpsk that a file of skops may hold: ``skops.io.load(file, trusted=dpsk.TRUSTED_TYPES)``."""
