"""What is known of the transformers of scikit-learn: their classes, and the parameters they are safe with.

Read off their sources from 1.6 to 1.9, and tested with twins. A class that is not here is unknown.
"""

from typing import Any

from .functions import function_rule
from .verdicts import Need, Rule, Treats, each, is_, is_given, is_number, learns

_SCALE = (
    "bounds= or standardize='private' of the classifier, or FunctionTransformer(np.clip, validate=True, kw_args=...) "
    "with public ends"
)
_CODES = "categories=[...] with public lists, or DPTabularClassifier, which buys them"
_FEWER = "a random projection with n_components=NUMBER, or columns chosen for public reasons"
_CHOSEN = "columns chosen for public reasons, or the penalty of the classifier (alpha)"
_FILL = "SimpleImputer(strategy='constant', fill_value=PUBLIC, keep_empty_features=True)"
_BINS = "SplineTransformer(knots=PUBLIC), or DPTabularClassifier, which buys its knots"
_WORDS = "HashingVectorizer, or vocabulary=[...] with a public list"


def _no(parameter: str, otherwise: str, instead: str) -> Need:
    return Need(parameter, is_(None, False), otherwise, instead)


_PUBLIC_CATEGORIES = (
    Need("categories", is_given, "keeps the list of categories: one that only a single row has is in it", _CODES),
    _no(
        "min_frequency", "counts the rows of each category", "leave min_frequency out, and merge categories beforehand"
    ),
    _no(
        "max_categories",
        "counts the rows of each category",
        "leave max_categories out, and merge categories beforehand",
    ),
)

_CONTENT = (
    Need("input", is_("content"), "reads files that nobody has checked", "input='content'", "unknown"),
    *(
        Need(name, is_(None), f"calls {name}, which may remember texts", f"leave {name} out", "unknown")
        for name in ("preprocessor", "tokenizer")
    ),
    *(
        Need(
            name,
            lambda value: not callable(value),
            f"calls {name}, which may remember texts",
            f"a word as {name}",
            "unknown",
        )
        for name in ("analyzer", "strip_accents")
    ),
)
_WORDS_FREE = (
    "encoding", "decode_error", "lowercase", "stop_words", "token_pattern", "ngram_range", "binary", "dtype",
)  # fmt: skip
_VOCABULARY = Need("vocabulary", is_given, "learns which words occur in the texts", _WORDS)
_NO_IDF = (
    Need("use_idf", is_(False), "counts the texts in which each word occurs", "use_idf=False"),
    Need(
        "sublinear_tf",
        is_(False),
        "takes logarithms of packed entries, whose last bits may depend on how many entries other rows have",
        "sublinear_tf=False",
        "unknown",
    ),
)


def _projection(*free: str) -> Treats:
    return Treats(
        (
            Need(
                "n_components",
                is_number,
                "computes its width from the number of rows that are left when some were refused",
                "n_components=NUMBER",
            ),
        ),
        ("eps", "compute_inverse_components", "random_state", *free),
        "draws a projection that does not look at the rows",
    )


SAFE_WITH: dict[str, Rule] = {
    "sklearn.preprocessing.Binarizer": Treats(free=("threshold", "copy")),
    "sklearn.preprocessing.Normalizer": Treats(free=("norm", "copy"), why="divides each row by its own norm"),
    "sklearn.preprocessing.PolynomialFeatures": Treats(
        free=("degree", "interaction_only", "include_bias", "order"), why="multiplies entries of one row"
    ),
    "sklearn.preprocessing.FunctionTransformer": function_rule,
    "sklearn.preprocessing.OneHotEncoder": Treats(
        (
            *_PUBLIC_CATEGORIES,
            Need(
                "handle_unknown",
                is_("ignore", "infrequent_if_exist"),
                "is stopped by one row with an unknown category, or warns of it, and names the category",
                "handle_unknown='ignore'",
                "mixes rows",
            ),
            Need(
                "drop",
                is_(None),
                "warns when some row has an unknown category, and names the column",
                "drop=None: a penalty needs no column less",
                "mixes rows",
            ),
        ),
        ("sparse_output", "dtype"),
        "its categories are public; others become zeros",
    ),
    "sklearn.preprocessing.OrdinalEncoder": Treats(
        (
            *_PUBLIC_CATEGORIES,
            Need(
                "handle_unknown",
                is_("use_encoded_value"),
                "is stopped by one row with an unknown category, and names the category",
                "handle_unknown='use_encoded_value', unknown_value=-1",
                "mixes rows",
            ),
        ),
        ("dtype", "unknown_value", "encoded_missing_value"),
        "its categories are public; others become one number",
    ),
    "sklearn.preprocessing.SplineTransformer": Treats(
        (
            Need("knots", is_given, "learns the places of its knots", "knots=<public array of n_knots rows>"),
            Need(
                "extrapolation",
                is_("constant", "linear", "continue", "periodic"),
                "refuses all rows for one beyond the knots",
                "extrapolation='constant' or 'linear'",
                "mixes rows",
            ),
            Need(
                "sparse_output",
                is_(None, False),
                "may store other rows in another way beside a row beyond the knots",
                "sparse_output=False",
                "unknown",
            ),
        ),
        ("n_knots", "degree", "include_bias", "order", "handle_missing"),
        "its knots are public",
    ),
    "sklearn.preprocessing.RobustScaler": Treats(
        (
            Need("with_centering", is_(False), "learns the median of each column", _SCALE),
            Need("with_scaling", is_(False), "learns quantiles of each column", _SCALE),
        ),
        ("quantile_range", "copy", "unit_variance"),
        "neither centres nor scales",
    ),
    "sklearn.impute.SimpleImputer": Treats(
        (
            Need(
                "strategy", is_("constant"), "learns a mean, a median or the most frequent value of each column", _FILL
            ),
            Need(
                "keep_empty_features",
                is_(True),
                "looks which columns have no value at all: it drops them, or warns of them",
                "keep_empty_features=True",
            ),
            Need(
                "add_indicator",
                is_(False),
                "adds a column for each column in which some row has a gap, so its width depends on the rows",
                "add_indicator=False, and MissingIndicator(features='all') beside it in a FeatureUnion",
            ),
        ),
        ("missing_values", "fill_value", "copy"),
        "fills gaps with a public value",
    ),
    "sklearn.impute.MissingIndicator": Treats(
        (
            Need(
                "features",
                is_("all"),
                "has a column for each column in which some row has a gap, so its width depends on the rows",
                "features='all'",
            ),
        ),
        ("missing_values", "sparse", "error_on_new"),
        "marks the gaps of each row",
    ),
    "sklearn.random_projection.GaussianRandomProjection": _projection(),
    "sklearn.random_projection.SparseRandomProjection": _projection("density", "dense_output"),
    "sklearn.kernel_approximation.RBFSampler": Treats(
        (Need("gamma", is_number, "learns the variance of the rows", "gamma=PUBLIC"),),
        ("n_components", "random_state"),
        "draws frequencies that do not look at the rows",
    ),
    "sklearn.kernel_approximation.SkewedChi2Sampler": Treats(
        free=("skewedness", "n_components", "random_state"), why="draws frequencies that do not look at the rows"
    ),
    "sklearn.kernel_approximation.PolynomialCountSketch": Treats(
        free=("gamma", "degree", "coef0", "n_components", "random_state"),
        why="draws hashes that do not look at the rows",
    ),
    "sklearn.feature_extraction.FeatureHasher": Treats(
        (
            Need(
                "input_type",
                is_("dict", "pair"),
                "refuses all rows where the first one is a text, and takes the same text in another place",
                "input_type='dict' or 'pair'",
                "mixes rows",
            ),
        ),
        ("n_features", "dtype", "alternate_sign"),
        "hashes the entries of one row",
    ),
    "sklearn.feature_extraction.text.HashingVectorizer": Treats(
        _CONTENT, (*_WORDS_FREE, "n_features", "norm", "alternate_sign"), "hashes the words of one text"
    ),
    "sklearn.feature_extraction.text.CountVectorizer": Treats(
        (*_CONTENT, _VOCABULARY),
        (*_WORDS_FREE, "max_df", "min_df", "max_features"),
        "counts the words of a public list",
    ),
    "sklearn.feature_extraction.text.TfidfVectorizer": Treats(
        (*_CONTENT, _VOCABULARY, *_NO_IDF),
        (*_WORDS_FREE, "max_df", "min_df", "max_features", "norm", "smooth_idf"),
        "counts the words of a public list",
    ),
    "sklearn.feature_extraction.text.TfidfTransformer": Treats(
        _NO_IDF, ("norm", "smooth_idf"), "divides each row by its own norm"
    ),
}


def _all(package: str, names: str, what: str, instead: str) -> dict[str, Rule]:
    return each([f"sklearn.{package}.{name}" for name in names.split()], learns(what, instead))


LEARNING: dict[str, Rule] = {
    "sklearn.preprocessing.StandardScaler": learns(
        "keeps the exact mean and variance of each column, and without them still how many values are missing", _SCALE
    ),
    **_all("preprocessing", "MinMaxScaler", "learns the least and the largest value of each column", _SCALE),
    **_all("preprocessing", "MaxAbsScaler", "learns the largest value of each column", _SCALE),
    **_all("preprocessing", "QuantileTransformer", "learns quantiles, which are values of single rows", _BINS),
    **_all("preprocessing", "PowerTransformer", "learns a power, a mean and a variance of each column", _SCALE),
    **_all("preprocessing", "KBinsDiscretizer", "learns the edges of its bins", _BINS),
    **_all("preprocessing", "TargetEncoder", "learns the mean label of each category", _CODES),
    **_all("preprocessing", "KernelCenterer", "learns means over the rows", "centre with public numbers"),
    **_all(
        "preprocessing",
        "LabelBinarizer LabelEncoder MultiLabelBinarizer",
        "learns which labels occur, or names unknown ones",
        "nothing: dpsk's classifiers take labels as they are",
    ),
    **_all("impute", "KNNImputer", "keeps the rows themselves", _FILL),
    **_all("impute", "IterativeImputer", "fits a model of each column", _FILL),
    **_all(
        "decomposition",
        "PCA IncrementalPCA KernelPCA SparsePCA MiniBatchSparsePCA TruncatedSVD FastICA FactorAnalysis NMF "
        "MiniBatchNMF DictionaryLearning MiniBatchDictionaryLearning LatentDirichletAllocation",
        "learns directions from the rows",
        _FEWER,
    ),
    **_all("neural_network", "BernoulliRBM", "learns weights from the rows", _FEWER),
    **_all(
        "manifold",
        "Isomap LocallyLinearEmbedding MDS SpectralEmbedding TSNE ClassicalMDS",
        "places rows by their distances to others",
        _FEWER,
    ),
    **_all(
        "cross_decomposition", "CCA PLSCanonical PLSRegression PLSSVD", "learns directions from rows and labels", _FEWER
    ),
    **_all(
        "discriminant_analysis", "LinearDiscriminantAnalysis", "learns means of the classes", "DPLogisticRegression"
    ),
    **_all(
        "cluster",
        "KMeans MiniBatchKMeans BisectingKMeans Birch FeatureAgglomeration",
        "learns centres or groups from the rows",
        _FEWER,
    ),
    **_all("kernel_approximation", "Nystroem", "keeps some of the rows themselves", "RBFSampler(gamma=PUBLIC)"),
    **_all(
        "ensemble",
        "RandomTreesEmbedding",
        "draws its splits between the ends of each column",
        "RBFSampler(gamma=PUBLIC), or SplineTransformer(knots=PUBLIC)",
    ),
    **_all(
        "neighbors",
        "KNeighborsTransformer RadiusNeighborsTransformer NeighborhoodComponentsAnalysis",
        "keeps rows, or learns from their distances",
        "RBFSampler(gamma=PUBLIC)",
    ),
    **_all("isotonic", "IsotonicRegression", "learns a curve from rows and labels", "PrivateCalibration"),
    **_all("feature_selection", "VarianceThreshold", "learns the variance of each column", _CHOSEN),
    **_all(
        "feature_selection",
        "SelectKBest SelectPercentile SelectFpr SelectFdr SelectFwe GenericUnivariateSelect SelectFromModel RFE RFECV "
        "SequentialFeatureSelector",
        "learns from rows and labels which columns to keep",
        _CHOSEN,
    ),
    **_all("feature_extraction", "DictVectorizer", "learns which keys and words occur", "FeatureHasher"),
}

RULES: dict[str, Rule] = SAFE_WITH | LEARNING


def _dense_if(parameter: str) -> Any:
    return lambda step: getattr(step, parameter) is False


ALWAYS_DENSE: dict[str, Any] = {
    "sklearn.preprocessing.OneHotEncoder": _dense_if("sparse_output"),
    "sklearn.preprocessing.OrdinalEncoder": lambda step: True,
    "sklearn.preprocessing.SplineTransformer": _dense_if("sparse_output"),
    "sklearn.kernel_approximation.RBFSampler": lambda step: True,
    "sklearn.kernel_approximation.SkewedChi2Sampler": lambda step: True,
    "sklearn.kernel_approximation.PolynomialCountSketch": lambda step: True,
    "sklearn.impute.MissingIndicator": _dense_if("sparse"),
}
"""The steps that return a dense table whatever they get, if the condition holds. Others may hand on sparse rows."""
