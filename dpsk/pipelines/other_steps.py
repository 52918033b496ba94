"""What is known of the transformers of skrub, category_encoders and feature-engine.

Read off their sources, skrub 0.11, category_encoders 2.11 and feature-engine 1.9, and tested with twins. None of these
libraries is imported: classes are known by their names.
"""

from typing import Any

from .verdicts import Need, Rule, Treats, is_, is_given, learns

_CODES = "sklearn.preprocessing.OneHotEncoder(categories=[...], handle_unknown='ignore'), or DPTabularClassifier"
_RAW = "DPTabularClassifier, which buys what it learns of raw tables"
_FILL = "sklearn.impute.SimpleImputer(strategy='constant', fill_value=PUBLIC, keep_empty_features=True)"
_SCALE = (
    "bounds= or standardize='private' of the classifier, or FunctionTransformer(np.clip, validate=True, kw_args=...) "
    "with public ends"
)
_TEXTS = "HashingVectorizer, or FeatureHasher"
_CHOSEN = "SelectCols or DropCols with names chosen for public reasons, or the penalty of the classifier (alpha)"
_BINS = "SplineTransformer(knots=PUBLIC), or DPTabularClassifier, which buys its knots"


def are_names(value: Any) -> bool:
    """Return whether columns are given by name or place."""
    return isinstance(value, str | int) or (
        isinstance(value, list | tuple) and all(isinstance(name, str | int) for name in value)
    )


def _named(parameter: str) -> Need:
    return Need(
        parameter,
        are_names,
        "chooses columns by a rule that may look at their values",
        f"{parameter}=[...] with names",
        "unknown",
    )


def _all(package: str, names: str, what: str, instead: str, verdict: str = "learns") -> dict[str, Rule]:
    return dict.fromkeys([f"{package}.{name}" for name in names.split()], learns(what, instead, verdict))


SKRUB: dict[str, Rule] = {
    "skrub.SelectCols": Treats((_named("cols"),), why="keeps the named columns"),
    "skrub.DropCols": Treats((_named("cols"),), why="drops the named columns"),
    **_all("skrub", "TableVectorizer Cleaner", "learns from the rows what each column is, and which to drop", _RAW),
    **_all("skrub", "MinHashEncoder", "keeps texts that it has seen, as they are, in hash_dict_", _TEXTS),
    **_all("skrub", "GapEncoder StringEncoder TextEncoder", "learns directions from the texts", _TEXTS),
    **_all("skrub", "SimilarityEncoder", "keeps the categories that it has seen", _TEXTS),
    **_all(
        "skrub",
        "DatetimeEncoder",
        "learns whether some time is not midnight, and leaves out hours if none is",
        "DPTabularClassifier with Date columns, or numbers of your own making in the table",
    ),
    **_all("skrub", "ToDatetime ToFloat", "learns whether all entries of a column can be read, and how", _RAW),
    **_all("skrub", "ToCategorical", "learns which categories occur", _CODES),
    **_all("skrub", "SquashingScaler", "learns quantiles of each column", _SCALE),
    **_all("skrub", "DropUninformative DropSimilar", "learns from the rows which columns to drop", _CHOSEN),
}

CATEGORY_ENCODERS: dict[str, Rule] = {
    "category_encoders.hashing.HashingEncoder": Treats(
        (
            Need(
                "cols", is_given, "guesses from their types which columns to hash", "cols=[...] with names", "unknown"
            ),
            Need("drop_invariant", is_(False), "learns which columns do not vary", "drop_invariant=False"),
            Need("min_group_size", is_(None), "counts the rows of each category", "min_group_size=None"),
            Need("max_process", lambda value: value == 1, "copies rows to other processes", "max_process=1", "unknown"),
            Need(
                "return_df",
                is_(True),
                "gives one type to all columns, which their values may decide",
                "return_df=True",
                "unknown",
            ),
        ),
        ("n_components", "hash_method", "max_sample", "process_creation_method"),
        "hashes the entries of one row",
    ),
    **{
        name: rule
        for module, kind in (
            ("one_hot", "OneHotEncoder"),
            ("ordinal", "OrdinalEncoder"),
            ("binary", "BinaryEncoder"),
            ("basen", "BaseNEncoder"),
            ("gray", "GrayEncoder"),
            ("rankhot", "RankHotEncoder"),
            ("backward_difference", "BackwardDifferenceEncoder"),
            ("helmert", "HelmertEncoder"),
            ("polynomial", "PolynomialEncoder"),
            ("sum_coding", "SumEncoder"),
        )
        for name, rule in _all(f"category_encoders.{module}", kind, "learns which categories occur", _CODES).items()
    },
    **_all("category_encoders.count", "CountEncoder", "learns how many rows each category has", _CODES),
    **{
        name: rule
        for module, kind in (
            ("target_encoder", "TargetEncoder"),
            ("leave_one_out", "LeaveOneOutEncoder"),
            ("cat_boost", "CatBoostEncoder"),
            ("m_estimate", "MEstimateEncoder"),
            ("james_stein", "JamesSteinEncoder"),
            ("woe", "WOEEncoder"),
            ("glmm", "GLMMEncoder"),
            ("quantile_encoder", "QuantileEncoder"),
        )
        for name, rule in _all(
            f"category_encoders.{module}",
            kind,
            "learns from rows and labels what each category says of the label",
            _CODES,
        ).items()
    },
}

_VARIABLES = _named("variables")

FEATURE_ENGINE: dict[str, Rule] = {
    "feature_engine.selection.drop_features.DropFeatures": Treats(
        (_named("features_to_drop"),), why="drops the named columns"
    ),
    "feature_engine.imputation.missing_indicator.AddMissingIndicator": Treats(
        (
            Need(
                "missing_only",
                is_(False),
                "has a column for each column in which some row has a gap",
                "missing_only=False",
            ),
            _VARIABLES,
        ),
        why="marks the gaps of each row",
    ),
    "feature_engine.creation.cyclical_features.CyclicalFeatures": Treats(
        (
            Need(
                "max_values",
                is_given,
                "learns the largest value of each column",
                "max_values={...} with public numbers",
            ),
            _VARIABLES,
        ),
        ("drop_original",),
        "its periods are public",
    ),
    **_all(
        "feature_engine.imputation.arbitrary_number",
        "ArbitraryNumberImputer",
        "decides the type of a column by all of its entries (infer_objects)",
        _FILL,
        "mixes rows",
    ),
    **_all(
        "feature_engine.imputation.mean_median", "MeanMedianImputer", "learns a mean or median of each column", _FILL
    ),
    **_all("feature_engine.imputation.end_tail", "EndTailImputer", "learns a tail of each column", _FILL),
    **_all("feature_engine.imputation.random_sample", "RandomSampleImputer", "keeps the rows themselves", _FILL),
    **_all("feature_engine.encoding.one_hot", "OneHotEncoder", "learns which categories occur", _CODES),
    **_all("feature_engine.encoding.ordinal", "OrdinalEncoder", "learns which categories occur", _CODES),
    **_all("feature_engine.encoding.rare_label", "RareLabelEncoder", "learns which categories are rare", _CODES),
    **_all(
        "feature_engine.encoding.count_frequency",
        "CountFrequencyEncoder",
        "learns how many rows each category has",
        _CODES,
    ),
    **_all("feature_engine.encoding.mean_encoding", "MeanEncoder", "learns the mean label of each category", _CODES),
    **_all("feature_engine.encoding.woe", "WoEEncoder", "learns what each category says of the label", _CODES),
    **_all(
        "feature_engine.discretisation.equal_width", "EqualWidthDiscretiser", "learns the ends of each column", _BINS
    ),
    **_all("feature_engine.discretisation.equal_frequency", "EqualFrequencyDiscretiser", "learns quantiles", _BINS),
    **_all("feature_engine.outliers.winsorizer", "Winsorizer", "learns where to cut each column", _SCALE),
    **_all(
        "feature_engine.scaling.mean_normalization",
        "MeanNormalizationScaler",
        "learns the mean and the ends of each column",
        _SCALE,
    ),
    **_all(
        "feature_engine.transformation.yeojohnson", "YeoJohnsonTransformer", "learns a power for each column", _SCALE
    ),
    **_all("feature_engine.transformation.boxcox", "BoxCoxTransformer", "learns a power for each column", _SCALE),
    **_all(
        "feature_engine.selection.drop_constant_features",
        "DropConstantFeatures",
        "learns which columns do not vary",
        _CHOSEN,
    ),
    **_all(
        "feature_engine.selection.drop_correlated_features", "DropCorrelatedFeatures", "learns correlations", _CHOSEN
    ),
    **_all(
        "feature_engine.selection.drop_duplicate_features",
        "DropDuplicateFeatures",
        "learns which columns are equal",
        _CHOSEN,
    ),
}

RULES: dict[str, Rule] = SKRUB | CATEGORY_ENCODERS | FEATURE_ENGINE
