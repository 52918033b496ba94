"""Common steps and recipes, the verdict on each, and rows on which it is tried."""

from dataclasses import dataclass

import numpy as np
from step_twins import WORDS


@dataclass(frozen=True)
class Recipe:
    """A step as people write it, the verdict on it, and the kind of rows on which twins are tried.

    Of several steps in a recipe ``verdict`` is the first that is not safe, or the last one if all are.
    """

    code: str
    verdict: str
    rows: str = "numbers"
    package: str = "scikit-learn"
    tried: bool = True

    def step(self):
        return eval(self.code, namespace(self.package))


KNOTS = np.linspace(0.0, 3.0, 4)[:, None].repeat(3, axis=1)


def half(X):
    return X / 2


def namespace(package):
    """Return the names that recipes use."""
    import sklearn
    import sklearn.calibration
    from sklearn import (
        cluster,
        compose,
        cross_decomposition,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_extraction,
        feature_selection,
        impute,
        isotonic,
        kernel_approximation,
        linear_model,
        manifold,
        model_selection,
        multiclass,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        random_projection,
        svm,
    )  # fmt: skip
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.frozen import FrozenEstimator

    import dpsk

    names = {}
    for module in (
        sklearn.calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble,
        feature_extraction, feature_extraction.text, feature_selection, impute, isotonic, kernel_approximation,
        linear_model, manifold, model_selection, multiclass, neighbors, neural_network, pipeline, preprocessing,
        random_projection, svm,
    ):  # fmt: skip
        names |= {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    names = {name: getattr(dpsk, name) for name in dpsk.__all__} | names
    names |= {
        "np": np,
        "KNOTS": KNOTS,
        "LISTS": WORDS,
        "WORDS": ["cat", "dog"],
        "half": half,
        "FrozenEstimator": FrozenEstimator,
    }
    if package == "skrub":
        import skrub

        names |= {name: getattr(skrub, name) for name in dir(skrub)}
    if package == "category_encoders":
        import category_encoders

        names |= {"ce": category_encoders}
    if package == "feature-engine":
        import feature_engine.creation
        import feature_engine.discretisation
        import feature_engine.encoding
        import feature_engine.imputation
        import feature_engine.outliers
        import feature_engine.scaling
        import feature_engine.selection
        import feature_engine.transformation

        names |= {"fe": feature_engine}
    return names


L, P, S, M, U, V = "learns", "public settings", "stateless", "mixes rows", "unknown", "private"

SCIKIT_LEARN = [
    Recipe("StandardScaler()", L),
    Recipe("StandardScaler(with_mean=False, with_std=False)", L),
    Recipe("MinMaxScaler()", L),
    Recipe("MaxAbsScaler()", L),
    Recipe("RobustScaler()", L),
    Recipe("RobustScaler(with_centering=False, with_scaling=False)", P),
    Recipe("Normalizer()", S),
    Recipe("Normalizer(norm='max')", S, "sparse"),
    Recipe("Binarizer(threshold=1.5)", S),
    Recipe("QuantileTransformer(n_quantiles=10)", L),
    Recipe("PowerTransformer()", L),
    Recipe("PolynomialFeatures(degree=2)", S),
    Recipe("PolynomialFeatures(degree=2, interaction_only=True)", S, "sparse"),
    Recipe("SplineTransformer()", L),
    Recipe("SplineTransformer(knots='quantile')", L),
    Recipe("SplineTransformer(knots=KNOTS)", P),
    Recipe("SplineTransformer(knots=KNOTS, extrapolation='linear')", P),
    Recipe("SplineTransformer(knots=KNOTS, extrapolation='error')", M),
    Recipe("SplineTransformer(knots=KNOTS, sparse_output=True)", U),
    Recipe("KBinsDiscretizer(n_bins=3, strategy='uniform')", L),
    Recipe("KernelCenterer()", L, "square"),
    Recipe("FunctionTransformer()", S),
    Recipe("FunctionTransformer(np.log1p)", S),
    Recipe("FunctionTransformer(np.sqrt)", S, "frame"),
    Recipe("FunctionTransformer(np.log1p, np.expm1)", M),
    Recipe("FunctionTransformer(np.log1p, np.expm1, check_inverse=False)", S),
    Recipe("FunctionTransformer(np.clip, validate=True, kw_args={'a_min': 0, 'a_max': 2})", P),
    Recipe("FunctionTransformer(np.nan_to_num, kw_args={'nan': 0.0})", U, "gaps"),
    Recipe("FunctionTransformer(np.cumsum, kw_args={'axis': 0})", M),
    Recipe("FunctionTransformer(scale)", M),
    Recipe("FunctionTransformer(half)", U),
    Recipe("OneHotEncoder()", L, "words"),
    Recipe("OneHotEncoder(handle_unknown='ignore')", L, "words"),
    Recipe("OneHotEncoder(categories=LISTS, handle_unknown='ignore')", P, "words"),
    Recipe("OneHotEncoder(categories=LISTS, handle_unknown='ignore', sparse_output=False)", P, "words"),
    Recipe("OneHotEncoder(categories=LISTS)", M, "known"),
    Recipe("OneHotEncoder(categories=LISTS, handle_unknown='ignore', drop='first')", M, "known"),
    Recipe("OneHotEncoder(categories=LISTS, handle_unknown='infrequent_if_exist', min_frequency=11)", L, "words"),
    Recipe("OrdinalEncoder()", L, "words"),
    Recipe("OrdinalEncoder(categories=LISTS)", M, "known"),
    Recipe("OrdinalEncoder(categories=LISTS, handle_unknown='use_encoded_value', unknown_value=-1)", P, "words"),
    Recipe("TargetEncoder()", L, "words"),
    Recipe("LabelBinarizer()", L, "labels"),
    Recipe("LabelEncoder()", L, "labels"),
    Recipe("MultiLabelBinarizer(classes=['a', 'b'])", L, "label sets"),
    Recipe("SimpleImputer()", L, "gaps"),
    Recipe("SimpleImputer(strategy='most_frequent')", L, "gaps"),
    Recipe("SimpleImputer(strategy='constant', fill_value=0)", L, "gaps"),
    Recipe("SimpleImputer(strategy='constant', fill_value=0, keep_empty_features=True)", P, "gaps"),
    Recipe("SimpleImputer(strategy='constant', fill_value='none', keep_empty_features=True)", P, "words"),
    Recipe("SimpleImputer(strategy='constant', keep_empty_features=True).set_output(transform='pandas')", M, "words"),
    Recipe("SimpleImputer(strategy='constant', keep_empty_features=True, add_indicator=True)", L, "gaps"),
    Recipe("MissingIndicator()", L, "gaps"),
    Recipe("MissingIndicator(features='all')", P, "gaps"),
    Recipe("KNNImputer()", L, "gaps"),
    Recipe("IterativeImputer(max_iter=2)", L, "gaps"),
    Recipe("PCA(2)", L),
    Recipe("IncrementalPCA(2)", L),
    Recipe("KernelPCA(2)", L),
    Recipe("TruncatedSVD(2)", L),
    Recipe("NMF(2, max_iter=5)", L),
    Recipe("FastICA(2)", L),
    Recipe("FactorAnalysis(2)", L),
    Recipe("LatentDirichletAllocation(2, max_iter=2)", L, "sparse"),
    Recipe("LinearDiscriminantAnalysis()", L),
    Recipe("PLSRegression(2)", L),
    Recipe("KMeans(3)", L),
    Recipe("FeatureAgglomeration(2)", L),
    Recipe("Isomap()", L),
    Recipe("RandomTreesEmbedding(n_estimators=3)", L),
    Recipe("KNeighborsTransformer()", L),
    Recipe("BernoulliRBM(n_components=2, n_iter=2)", L),
    Recipe("VarianceThreshold()", L),
    Recipe("SelectKBest(k=2)", L),
    Recipe("SelectPercentile(mutual_info_classif)", L),
    Recipe("SelectFromModel(LogisticRegression())", L),
    Recipe("RFE(LogisticRegression())", L),
    Recipe("SequentialFeatureSelector(LogisticRegression(), n_features_to_select=1)", L),
    Recipe("GaussianRandomProjection(2)", P),
    Recipe("SparseRandomProjection(2)", P, "sparse"),
    Recipe("GaussianRandomProjection(eps=0.99)", L, tried=False),
    Recipe("RBFSampler(gamma=0.5)", P),
    Recipe("RBFSampler(gamma='scale')", L),
    Recipe("Nystroem(n_components=40)", L),
    Recipe("PolynomialCountSketch(n_components=8)", S),
    Recipe("SkewedChi2Sampler(n_components=8)", S),
    Recipe("AdditiveChi2Sampler()", U),
    Recipe("FeatureHasher(n_features=8)", P, "dicts"),
    Recipe("DictVectorizer()", L, "dicts"),
    Recipe("HashingVectorizer(n_features=8)", P, "texts"),
    Recipe("CountVectorizer()", L, "texts"),
    Recipe("CountVectorizer(vocabulary=WORDS)", P, "texts"),
    Recipe("TfidfVectorizer()", L, "texts"),
    Recipe("TfidfVectorizer(vocabulary=WORDS)", L, "texts"),
    Recipe("TfidfVectorizer(vocabulary=WORDS, use_idf=False)", P, "texts"),
    Recipe("TfidfTransformer(use_idf=False)", P, "sparse"),
    Recipe("CountVectorizer(vocabulary=WORDS, tokenizer=str.split)", U, "texts"),
]

CONTAINERS = [
    Recipe("make_pipeline(StandardScaler(), DPLogisticRegression())", L),
    Recipe("make_pipeline(FunctionTransformer(np.log1p), PolynomialFeatures())", S),
    Recipe("make_pipeline(FunctionTransformer(np.log1p), DPLogisticRegression())", V, tried=False),
    Recipe("make_pipeline(FunctionTransformer(np.log1p), DPLogisticRegression(random_state=0))", L, tried=False),
    Recipe("make_pipeline(FunctionTransformer(np.log1p), LogisticRegression())", L),
    Recipe("Pipeline([('log', FunctionTransformer(np.log1p))], memory='cache')", L, tried=False),
    Recipe("make_union(Normalizer(), 'passthrough')", S),
    Recipe("make_union(Normalizer(), PCA(2))", L),
    Recipe(
        "make_column_transformer((OneHotEncoder(categories=LISTS, handle_unknown='ignore'), [0, 1]))",
        M,
        "dense words",
    ),
    Recipe(
        "make_column_transformer((OneHotEncoder(categories=LISTS, handle_unknown='ignore'), [0, 1]), sparse_threshold=0)",  # noqa: E501
        P,
        "words",
    ),
    Recipe(
        "make_column_transformer((Normalizer(), ['a', 'b']), sparse_threshold=0, remainder='passthrough')", S, "frame"
    ),
    Recipe(
        "make_column_transformer((Normalizer(), make_column_selector(dtype_include='number')), sparse_threshold=0)",
        S,
        "mixed",
    ),
    Recipe("make_column_transformer((Normalizer(), lambda X: X.columns), sparse_threshold=0)", U, tried=False),
    Recipe("FrozenEstimator(StandardScaler())", U, tried=False),
    Recipe("GridSearchCV(DPLogisticRegression(), {'alpha': [0.1, 1.0]})", L, tried=False),
    Recipe("PrivateSearchCV(DPLogisticRegression(), {'alpha': [0.1, 1.0]})", V, tried=False),
    Recipe("CalibratedClassifierCV(LinearSVC())", L, tried=False),
    Recipe("OneVsRestClassifier(DPLogisticRegression())", U, tried=False),
    Recipe("BaggingClassifier(DPLogisticRegression())", L, tried=False),
    Recipe("StackingClassifier([('a', LogisticRegression())], cv=2)", L, tried=False),
]

SKRUB = [
    Recipe(code, verdict, rows, "skrub")
    for code, verdict, rows in [
        ("TableVectorizer()", L, "mixed"),
        ("tabular_pipeline(LogisticRegression())", L, "mixed"),
        ("Cleaner()", L, "mixed"),
        ("SelectCols(['a', 'colour'])", P, "mixed"),
        ("DropCols('colour')", P, "mixed"),
        ("ApplyToCols(FunctionTransformer(np.log1p), cols=['a', 'b'])", S, "mixed"),
        ("ApplyToCols(SimpleImputer(strategy='constant', keep_empty_features=True), cols=['colour'])", M, "words"),
        ("ApplyToCols(StandardScaler(), cols=['a', 'b'])", L, "frame"),
        ("ApplyToCols(DatetimeEncoder(), cols=['day'])", L, "days"),
        ("ApplyToCols(ToDatetime(), cols=['day'], allow_reject=True)", M, "day texts"),
        ("ApplyToCols(MinHashEncoder(n_components=4), cols=['text'])", L, "text column"),
        ("ApplyToCols(StringEncoder(n_components=2), cols=['text'])", L, "text column"),
        ("ApplyToCols(GapEncoder(n_components=2, max_iter=2), cols=['text'])", L, "text column"),
        ("ApplyToCols(ToCategorical(), cols=['colour'])", L, "words"),
        ("SquashingScaler()", L, "frame"),
    ]
]

CATEGORY_ENCODERS = [
    Recipe(f"ce.{code}", verdict, "words", "category_encoders")
    for code, verdict in [
        ("OneHotEncoder()", L),
        ("OrdinalEncoder()", L),
        ("BinaryEncoder()", L),
        ("CountEncoder()", L),
        ("TargetEncoder()", L),
        ("LeaveOneOutEncoder()", L),
        ("CatBoostEncoder()", L),
        ("WOEEncoder()", L),
        ("JamesSteinEncoder()", L),
        ("HelmertEncoder()", L),
        ("HashingEncoder(cols=['colour', 'size'], max_process=1)", P),
        ("HashingEncoder(cols=['colour', 'size'], max_process=1, drop_invariant=True)", L),
    ]
]

FEATURE_ENGINE = [
    Recipe(f"fe.{code}", verdict, rows, "feature-engine")
    for code, verdict, rows in [
        ("imputation.MeanMedianImputer()", L, "frame"),
        ("imputation.EndTailImputer()", L, "frame"),
        ("imputation.RandomSampleImputer()", L, "frame"),
        ("imputation.ArbitraryNumberImputer(0, variables=['a'])", M, "objects"),
        ("imputation.AddMissingIndicator()", L, "frame"),
        ("imputation.AddMissingIndicator(missing_only=False, variables=['a', 'b'])", P, "mixed"),
        ("encoding.OneHotEncoder()", L, "words"),
        ("encoding.OrdinalEncoder(encoding_method='arbitrary')", L, "words"),
        ("encoding.RareLabelEncoder(n_categories=2)", L, "words"),
        ("encoding.CountFrequencyEncoder()", L, "words"),
        ("encoding.MeanEncoder()", L, "words"),
        ("discretisation.EqualWidthDiscretiser()", L, "frame"),
        ("discretisation.EqualFrequencyDiscretiser()", L, "frame"),
        ("outliers.Winsorizer()", L, "frame"),
        ("scaling.MeanNormalizationScaler()", L, "frame"),
        ("transformation.YeoJohnsonTransformer()", L, "frame"),
        ("creation.CyclicalFeatures(variables=['a', 'b'], max_values={'a': 23, 'b': 6})", P, "whole"),
        ("creation.CyclicalFeatures(variables=['a', 'b'])", L, "whole"),
        ("selection.DropFeatures(['a'])", P, "mixed"),
        ("selection.DropConstantFeatures()", L, "constant"),
    ]
]

RECIPES = [*SCIKIT_LEARN, *CONTAINERS, *SKRUB, *CATEGORY_ENCODERS, *FEATURE_ENGINE]
