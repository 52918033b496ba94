"""What the checker of pipelines says of steps, and that it is true: twins with one extreme row."""

import re
from inspect import signature
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.utils import all_estimators
from step_recipes import CONTAINERS, KNOTS, RECIPES, SCIKIT_LEARN, Recipe
from step_twins import KINDS, TYPES, N, compare, compare_in_private, seen

from dpsk import DPLogisticRegression, DPTabularClassifier, PrivateSearchCV, PrivateThreshold, check_pipeline
from dpsk.pipelines import verdict_of
from dpsk.pipelines.in_front import transformed
from dpsk.pipelines.sklearn_steps import SAFE_WITH
from dpsk.pipelines.steps import RULES
from dpsk.pipelines.verdicts import SAFE

PAGE = Path(__file__).parents[1] / "docs" / "pipelines.md"
IN_FRONT = {"scikit-learn": "sklearn", "feature-engine": "feature_engine"}
REFUSED_BY_NATURE = {"infinite", "missing", "one missing"}


def said(recipe):
    found = check_pipeline(recipe.step())
    return (found.refused or found.verdicts[-1:])[0]


def need(recipe):
    pytest.importorskip(IN_FRONT.get(recipe.package, recipe.package))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.code)
def test_the_verdict_on_a_recipe(recipe):
    need(recipe)
    found = said(recipe)
    assert found.verdict == recipe.verdict, found
    assert found.why
    assert bool(found.instead) == (not found.safe)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.tried], ids=lambda recipe: recipe.code)
@pytest.mark.filterwarnings("ignore")
def test_one_row_moves_nothing_of_a_safe_step_and_something_of_a_refused_one(recipe):
    need(recipe)
    rows = KINDS[recipe.rows]()
    assert seen(recipe.step, rows.X, rows.y).error is None
    moved = list(compare(recipe.step, rows))
    if recipe.verdict in SAFE:
        assert [one for one in moved if one[1] != "refused alone"] == []
        assert list(compare_in_private(recipe.step, rows)) == []
    elif recipe.verdict != "unknown":
        told = [one for one in moved if one[1] != "refused alone"]
        refused = [one for one in moved if recipe.verdict == "mixes rows" and one[0] not in REFUSED_BY_NATURE]
        assert told or refused, "the refusal is unfounded"


def test_there_are_as_many_recipes_as_the_page_says():
    assert len({recipe.code for recipe in RECIPES}) == len(RECIPES) >= 90
    text = PAGE.read_text()
    for recipe in RECIPES:
        assert f"| `{recipe.code}` | {recipe.verdict} |" in text, f"the page says something else of {recipe.code}"
    assert text.count("\n| `") == len(RECIPES)
    assert f"{len(RECIPES)} steps and recipes" in text


def test_the_private_ways_on_the_page_are_those_of_the_checker():
    text = PAGE.read_text()
    for recipe in [*SCIKIT_LEARN, *CONTAINERS]:
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{recipe.code}` |")]
        found = said(recipe)
        assert line == f"| `{recipe.code}` | {found.verdict} | {found.why} | {found.instead} |"


@pytest.mark.slow
def test_the_examples_of_the_page_run(capsys):
    namespace = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(code, "pipelines.md", "exec"), namespace)
    assert "standardscaler" in capsys.readouterr().out


WORDS = [
    "all", "auto", "constant", "continue", "dict", "error", "first", "if_binary", "ignore", "infrequent_if_exist",
    "l1", "l2", "linear", "max", "mean", "median", "missing-only", "most_frequent", "pair", "periodic", "quantile",
    "scale", "string", "uniform", "use_encoded_value", "warn", "word", "char", "content",
]  # fmt: skip
VALUES = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    0.5,
    8,
    np.log1p,
    np.float32,
    [["blue", "green"], ["large", "small"]],
    ["cat"],
    KNOTS,
]


def some_steps(Transformer, rng):
    """Yield a transformer with its defaults, and with random parameters in the place of some of them."""
    required = {"transformers": [("a", "passthrough", [0])], "transformer_list": [("a", "passthrough")]}
    required |= {"estimator": LogisticRegression(), "estimators": [("a", LogisticRegression())]}
    required |= {"dictionary": np.eye(3)}
    names = list(signature(Transformer).parameters)
    given = {name: required[name] for name in required if name in names}
    yield Transformer, given
    pool = [*WORDS, *VALUES]
    free = [name for name in names if name not in ("random_state", "n_jobs", "memory", "verbose", *given)]
    safe = [
        one.step() for one in SCIKIT_LEARN if one.verdict in SAFE and one.code.startswith(f"{Transformer.__name__}(")
    ]
    for base in [given, *(step.get_params(deep=False) for step in safe)] * 12:
        yield Transformer, base
        chosen = rng.choice(len(free), size=rng.integers(1, min(len(free), 4) + 1), replace=False) if free else ()
        yield Transformer, base | {free[k]: pool[rng.integers(len(pool))] for k in chosen}


MUST_BE_TRIED = {key.rpartition(".")[2] for key in SAFE_WITH}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, _ in all_estimators("transformer")])
def test_no_transformer_of_scikit_learn_is_safe_by_mistake(name):
    """12 draws of parameters around each safe recipe and around the defaults, on six kinds of rows."""
    Transformer, rng = dict(all_estimators("transformer"))[name], np.random.default_rng(0)
    known = any(key.startswith("sklearn.") and key.endswith(f".{name}") for key in RULES)
    tried = set()
    for kind, given in some_steps(Transformer, rng):
        verdict = verdict_of(kind(**given))
        assert known or not verdict.safe
        if not verdict.safe or not known:
            continue
        for rows in map(KINDS.get, ("numbers", "gaps", "sparse", "words", "texts", "dicts")):
            of = rows()
            if repr((given, rows)) not in tried and seen(lambda k=kind, g=given: k(**g), of.X, of.y).error is None:
                tried.add(repr((given, rows)))
                moved = [one for one in compare(lambda k=kind, g=given: k(**g), of) if one[1] != "refused alone"]
                assert moved == [], (given, rows.__name__)
    assert tried or name not in MUST_BE_TRIED


SAFE_RECIPES = [recipe for recipe in SCIKIT_LEARN if recipe.verdict in SAFE and recipe.rows not in ("texts", "dicts")]
MORE = [
    "SimpleImputer(strategy='constant', missing_values=0, fill_value=1, keep_empty_features=True)",
    "SimpleImputer(strategy='constant', missing_values=None, fill_value='z', keep_empty_features=True)",
    "MissingIndicator(features='all', sparse=True)",
    "OneHotEncoder(categories=[['blue', 'red', np.nan], ['large', 'small', np.nan]], handle_unknown='ignore')",
    "OrdinalEncoder(categories=[list(range(40)), [0.0, 0.5]], handle_unknown='use_encoded_value', unknown_value=-1)",
    "OneHotEncoder(categories=[[False, True]], handle_unknown='ignore')",
    "FunctionTransformer(validate=True)",
    "FunctionTransformer(np.isnan)",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", TYPES, ids=lambda rows: rows.__name__)
def test_safe_steps_are_safe_on_columns_of_any_type(rows):
    of, tried = rows(), 0
    for recipe in [*SAFE_RECIPES, *(Recipe(code, "") for code in MORE)]:
        for out in ("default", "pandas"):

            def make(recipe=recipe, out=out):
                step = recipe.step()
                return step.set_output(transform=out) if hasattr(step, "set_output") else step

            if verdict_of(make()).safe and seen(make, of.X, of.y).error is None:
                assert [one for one in compare(make, of) if one[1] != "refused alone"] == [], (recipe.code, out)
                tried += 1
    assert tried >= 6


def test_a_width_from_the_number_of_rows_shows_that_a_row_was_refused():
    X = np.random.default_rng(0).normal(size=(N, 120))
    widths = {GaussianRandomProjection(eps=0.99).fit(X[:n]).n_components_ for n in (N, N - 1)}
    assert len(widths) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_of_any_value_move_no_bit_of_another_row_in_a_product_of_matrices():
    """3,000 rows of 50 columns, so that fast libraries cut them into blocks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 50))
    steps = [GaussianRandomProjection(40, random_state=0), RBFSampler(gamma=0.5, random_state=0)]
    for step in [*steps, PolynomialCountSketch(n_components=40, random_state=0), FunctionTransformer(np.exp)]:
        plain = step.fit_transform(X)
        for place, row in product((0, 1, 1500, 2999), (1e308, -1e308, 5e-324, 0.0, -0.0)):
            twin = X.copy()
            twin[place] = row
            others = np.delete(np.arange(3000), place)
            assert step.fit_transform(twin)[others].tobytes() == plain[others].tobytes()


def test_a_cache_of_a_pipeline_holds_rows(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = 98765.4321
    cached = Pipeline([("log", FunctionTransformer()), ("unit", Normalizer()), ("end", PCA(1))], memory=str(tmp_path))
    cached.fit(X)
    held = np.float64(98765.4321).tobytes()
    unit = (X[2] / np.linalg.norm(X[2]))[1].tobytes()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(held in one or unit in one for one in files)
    assert not check_pipeline(cached).safe


def test_subclasses_are_unknown():
    class Mine(Normalizer):
        pass

    assert verdict_of(Mine()).verdict == "unknown"
    assert verdict_of(Normalizer()).safe


def test_a_class_of_the_same_name_is_unknown():
    Other = type("Normalizer", (BaseEstimator,), {"__module__": "sklearn.preprocessing._data"})
    assert verdict_of(Other()).verdict == "unknown"


def test_an_object_with_a_method_of_its_own_is_unknown():
    step = Normalizer()
    step.transform = lambda X: X - X.mean(axis=0)
    assert verdict_of(step).verdict == "unknown"


def test_a_ufunc_that_somebody_made_is_unknown():
    told = []
    step = FunctionTransformer(np.frompyfunc(lambda x: told.append(x) or len(told), 1, 1))
    assert verdict_of(step).verdict == "unknown"
    assert verdict_of(FunctionTransformer(np.exp)).safe


@pytest.mark.parametrize(
    "container",
    [
        Pipeline([("a", "passthrough")], verbose=True),
        FeatureUnion([("a", "passthrough")], verbose=True),
        ColumnTransformer([("a", "passthrough", [0])], sparse_threshold=0, verbose=True),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_container_that_prints_tells_how_often_it_was_fitted(container):
    assert [one.verdict for one in check_pipeline(container).refused] == ["mixes rows"]
    assert check_pipeline(container.set_params(verbose=False)).safe


def test_a_hasher_of_texts_refuses_by_the_first_row_alone():
    """One row would move almost all: halves of the table that begin with a text are refused."""
    rows = np.empty(40, dtype=object)
    rows[:] = [["a", "b"], ["c", "d"], *(f"w{i}" for i in range(38))]
    twin = rows.copy()
    twin[0] = None
    hasher = FeatureHasher(8, input_type="string")
    one, other = (transformed(hasher.fit_transform, X, None).toarray() for X in (rows, twin))
    assert (one != other).any(axis=1).sum() > 30
    assert verdict_of(hasher).verdict == "mixes rows"
    assert verdict_of(FeatureHasher(8)).safe
    assert verdict_of(FeatureHasher(8, input_type="pair")).safe


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.log, kw_args={"out": np.empty(3)}),
        FunctionTransformer(np.clip, validate=True, kw_args={"a_min": 0, "a_max": 1, "out": np.empty(3)}),
        FunctionTransformer(np.clip, validate=True, kw_args={"a_min": "a", "a_max": 1}),
        FunctionTransformer(np.nan_to_num),
        FunctionTransformer(np.modf),
        FunctionTransformer(feature_names_out=lambda self, names: names),
        CountVectorizer(vocabulary=["a"], analyzer=str.split),
        Pipeline([("a", "passthrough")], transform_input=["metadata"]),
        ColumnTransformer([("a", "drop", ["b"]), ("c", "passthrough", len)], sparse_threshold=0),
        object(),
        Normalizer,
    ],
    ids=lambda step: type(step).__name__,
)
def test_where_in_doubt_it_is_unknown(step):
    assert verdict_of(step).verdict == "unknown"


def test_column_selectors_by_type_are_public():
    columns = ColumnTransformer([("a", "passthrough", make_column_selector("a"))], sparse_threshold=0)
    assert check_pipeline(columns).safe


def test_a_column_transformer_of_dense_parts_needs_no_threshold():
    encoder = OneHotEncoder(categories=[["a"]], handle_unknown="ignore", sparse_output=False)
    assert check_pipeline(ColumnTransformer([("a", encoder, ["b"])])).safe
    assert not check_pipeline(ColumnTransformer([("a", encoder, ["b"])], remainder="passthrough")).safe
    assert not check_pipeline(ColumnTransformer([("a", encoder, ["b"]), ("c", Normalizer(), ["c"])])).safe


@pytest.mark.parametrize("out", ["pandas", "polars"])
def test_frames_made_of_objects_get_their_types_from_all_entries(out):
    fill = SimpleImputer(strategy="constant", keep_empty_features=True)
    columns = ColumnTransformer([("a", Normalizer(), ["b"])], sparse_threshold=0)
    union, rest = FeatureUnion([("a", "passthrough")]), clone(columns).set_params(remainder="passthrough")
    for step in (fill, FunctionTransformer(), union, rest):
        assert verdict_of(step).safe
        with config_context(transform_output=out):
            assert verdict_of(step).verdict == "mixes rows"
        assert verdict_of(clone(step).set_output(transform=out)).verdict == "mixes rows"
    for step in (Normalizer(), FunctionTransformer(np.log1p), columns):
        assert verdict_of(clone(step).set_output(transform=out)).safe


class Promised(TransformerMixin, BaseEstimator):
    def __init__(self, keeps=False):
        self.keeps = keeps

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def __dpsk_row_by_row__(self):
        return not self.keeps


class Inherits(Promised):
    pass


def test_a_class_may_promise():
    assert verdict_of(Promised()).verdict == "vouched for"
    assert verdict_of(Promised(keeps=True)).verdict == "unknown"
    assert verdict_of(Inherits()).verdict == "unknown"


def nested():
    inner = Pipeline([("fill", SimpleImputer()), ("half", FunctionTransformer(lambda X: X / 2))])
    union = FeatureUnion([("inner", inner), ("unit", Normalizer())])
    columns = ColumnTransformer([("num", union, ["a"]), ("cat", OneHotEncoder(), ["b"])], sparse_threshold=0)
    return Pipeline([("columns", columns), ("model", DPLogisticRegression())])


def test_every_step_has_a_path():
    found = check_pipeline(nested())
    assert [one.name for one in found.verdicts] == [
        "columns > num > inner > fill", "columns > num > inner > half", "columns > num > unit", "columns > cat",
        "model",
    ]  # fmt: skip
    assert [one.name for one in found.refused] == [
        "columns > num > inner > fill", "columns > num > inner > half", "columns > cat",
    ]  # fmt: skip
    assert not found.safe
    assert found.to_dict()["verdicts"][2]["safe"]
    for one in found.verdicts:
        assert one.name in str(found)


def test_require_names_every_refused_step_and_its_remedy():
    found = check_pipeline(nested())
    with pytest.raises(ValueError, match="steps of the pipeline") as caught:
        found.require()
    for one in found.refused:
        assert one.name in str(caught.value)
        assert one.instead in str(caught.value)
    check_pipeline(make_pipeline(Normalizer(), DPLogisticRegression())).require()


def test_somebody_may_vouch():
    pipeline = nested()
    half = pipeline["columns"].transformers[0][1].transformer_list[0][1]["half"]
    for public in (["half"], ["columns > num > inner > half"], [half]):
        found = check_pipeline(pipeline, public=public)
        assert [one.name for one in found.refused] == ["columns > num > inner > fill", "columns > cat"]
    found = check_pipeline(pipeline, public=["columns"])  # what is known to learn stays refused
    assert [one.name for one in found.refused] == ["columns > num > inner > fill", "columns > cat"]
    own = Pipeline(
        [
            ("columns", ColumnTransformer([("half", FunctionTransformer(half), ["a"])])),
            ("model", DPLogisticRegression()),
        ]
    )
    found = check_pipeline(own, public=["columns"])
    assert [one.verdict for one in found.verdicts] == ["vouched for", "private"]
    assert found.safe


@pytest.mark.parametrize("public", ["half", ["nobody"], [Normalizer()], 3])
def test_vouching_for_nothing_is_refused(public):
    with pytest.raises(ValueError, match="public"):
        check_pipeline(nested(), public=public)


def test_a_name_of_two_steps_is_not_enough():
    twice = Pipeline(
        [
            ("a", Pipeline([("x", FunctionTransformer(lambda X: X / 2))])),
            ("b", Pipeline([("x", FunctionTransformer(lambda X: X / 2))])),
        ]
    )
    with pytest.raises(ValueError, match="2 steps"):
        check_pipeline(twice, public=["x"])
    assert [one.name for one in check_pipeline(twice, public=["a > x"]).refused] == ["b > x"]


def test_models_without_noise_are_refused():
    assert verdict_of(LogisticRegression()).instead == "DPLogisticRegression"
    assert verdict_of(DPLogisticRegression()).verdict == "private"
    assert verdict_of(DPLogisticRegression(epsilon=np.inf)).verdict == "learns"
    assert verdict_of(DPLogisticRegression(random_state=0)).verdict == "learns"
    assert not check_pipeline(PrivateThreshold(LogisticRegression())).safe
    assert check_pipeline(PrivateThreshold(DPLogisticRegression())).safe
    assert check_pipeline(PrivateThreshold(FrozenEstimator(DPLogisticRegression()))).safe
    assert verdict_of(FrozenEstimator(Normalizer())).verdict == "unknown"


def test_candidates_of_a_search_are_looked_at():
    pipeline = Pipeline([("poly", PolynomialFeatures()), ("model", DPLogisticRegression())])
    safe = {"poly__degree": [1, 2], "model__alpha": [0.1]}
    assert check_pipeline(PrivateSearchCV(pipeline, safe)).safe
    found = check_pipeline(PrivateSearchCV(pipeline, {"poly": [PolynomialFeatures(), StandardScaler()]}))
    assert [one.name for one in found.refused] == ["estimator > poly"]
    both = safe | {"poly": [PolynomialFeatures(), StandardScaler()]}
    assert check_pipeline(PrivateSearchCV(pipeline, both)).refused[0].verdict == "unknown"  # no degree to set
    many = {"poly__degree": range(1, 300)}
    assert check_pipeline(PrivateSearchCV(pipeline, many)).refused[0].verdict == "unknown"
    assert not check_pipeline(GridSearchCV(pipeline, safe)).safe


def test_two_candidates_that_are_unsafe_together_are_found():
    encoder = OneHotEncoder(categories=[["a"]], handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer([("cat", encoder, ["b"])], sparse_threshold=0)
    pipeline = Pipeline([("columns", columns), ("model", DPLogisticRegression())])
    names = "columns__sparse_threshold", "columns__cat__sparse_output"
    lists = [0, 0.3], [False, True]
    for name, values in zip(names, lists, strict=True):
        assert check_pipeline(PrivateSearchCV(pipeline, {name: values})).safe
    found = check_pipeline(PrivateSearchCV(pipeline, dict(zip(names, lists, strict=True))))
    assert [one.verdict for one in found.refused] == ["mixes rows"]


@pytest.mark.slow
def test_an_encoder_of_released_values_is_private():
    import pandas as pd

    X = pd.DataFrame({"a": np.arange(500.0), "b": ["x", "y"] * 250})
    model = DPTabularClassifier(epsilon=5.0).fit(X, np.arange(500) % 2)
    assert verdict_of(model.encoder_).verdict == "private"
    assert check_pipeline(make_pipeline(FrozenEstimator(model.encoder_), DPLogisticRegression())).safe


def test_the_check_does_not_change_the_pipeline():
    pipeline = nested()
    before = repr(pipeline.get_params())
    check_pipeline(pipeline, public=["columns"])
    assert repr(pipeline.get_params()) == before


def test_every_refusal_has_a_remedy():
    for _, Kind in all_estimators("transformer"):
        kind, given = next(some_steps(Kind, np.random.default_rng(0)))
        verdict = verdict_of(kind(**given))
        assert verdict.safe or verdict.instead
