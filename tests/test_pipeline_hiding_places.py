"""Places where a step that learns, or a fact about one row, could hide in a private pipeline."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from dpsk import DPLogisticRegression, PrivatePipeline, PrivateSearchCV, check_pipeline

RNG = np.random.default_rng(0)
X = RNG.uniform(1, 2, (300, 3))
Y = (X[:, 0] > 1.5).astype(int)


class Scalers:
    """A distribution whose draws are steps."""

    def rvs(self, random_state=None):
        return StandardScaler()


def model():
    return ("model", DPLogisticRegression(epsilon=100.0))


def test_a_function_that_chooses_what_is_dropped_also_chooses_what_remains():
    def large(table):
        return [k for k in range(table.shape[1]) if table[:, k].max() > 5]

    columns = ColumnTransformer([("d", "drop", large)], remainder="passthrough", sparse_threshold=0)
    assert not check_pipeline(columns).safe


def test_callables_that_may_count_fits_are_unknown():
    def named(*names):
        return "_".join(names)

    columns = ColumnTransformer([("f", PolynomialFeatures(), [0])], verbose_feature_names_out=named, sparse_threshold=0)
    encoder = OneHotEncoder(categories=[[1.0]], handle_unknown="ignore", feature_name_combiner=named)
    assert not check_pipeline(columns).safe
    assert not check_pipeline(encoder).safe


@pytest.mark.parametrize("candidates", [{"scale": Scalers()}, {"scale": [StandardScaler()], "poly__degree": [1] * 300}])
def test_candidates_that_cannot_be_looked_at_are_refused_at_the_end_of_a_private_pipeline(candidates):
    inner = Pipeline([("scale", "passthrough"), ("poly", PolynomialFeatures(1)), model()])
    pipeline = PrivatePipeline([("search", PrivateSearchCV(inner, candidates, epsilon=3.0))])
    with pytest.raises(ValueError, match="more values of"):
        pipeline.fit(X, Y)


@pytest.mark.parametrize("name", ["inner__scale", "inner__steps"])
def test_candidates_of_a_pipeline_in_a_pipeline_are_looked_at(name):
    inner = Pipeline([("scale", "passthrough"), model()])
    outer = Pipeline([("front", FunctionTransformer()), ("inner", inner)])
    values = Scalers() if name == "inner__scale" else [[("scale", StandardScaler()), model()]]
    assert not check_pipeline(PrivateSearchCV(outer, {name: values}, epsilon=3.0)).safe


def test_a_run_refuses_a_candidate_that_no_probe_has_found():
    search = PrivateSearchCV(PrivatePipeline([("scale", "passthrough"), model()]), {"model__alpha": [0.1]}, epsilon=3.0)
    run, *_ = search._planned()
    with pytest.raises(ValueError, match="show private rows"):
        run.model({"scale": StandardScaler()})


def test_bounds_for_each_row_are_unknown():
    clip = FunctionTransformer(
        np.clip, validate=True, kw_args={"a_min": np.zeros((300, 1)), "a_max": np.ones((300, 1))}
    )
    assert not check_pipeline(clip).safe
    clip.set_params(kw_args={"a_min": np.zeros(3), "a_max": np.ones(3)})
    assert check_pipeline(clip).safe


def test_a_refused_row_takes_no_names_of_columns_away():
    pytest.importorskip("polars")
    root = FunctionTransformer(np.sqrt, feature_names_out="one-to-one")
    pipeline = PrivatePipeline([("root", root), ("poly", PolynomialFeatures().set_output(transform="polars")), model()])
    refused = X.copy()
    refused[3, 1] = -1.0
    seen = [hasattr(clone(pipeline).fit(table, Y)[-1], "feature_names_in_") for table in (X, refused)]
    assert seen[0] == seen[1]


def test_columns_whose_type_a_missing_entry_changes_are_refused():
    pl = pytest.importorskip("polars")
    encoder = OneHotEncoder(categories=[[1, 2]], handle_unknown="ignore", sparse_output=False)
    pipeline = PrivatePipeline([("codes", encoder), model()])
    errors = []
    for column in ([1, 2] * 150, [None, 2] + [1, 2] * 149):
        with pytest.raises(ValueError, match="cast whole numbers") as error:
            clone(pipeline).fit(pl.DataFrame({"a": column}), Y)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert clone(pipeline).fit(pl.DataFrame({"a": [1.0, 2.0] * 150}), Y).n_features_in_ == 1


def test_complex_numbers_are_refused_whether_or_not_a_row_is():
    pipeline = PrivatePipeline([("log", FunctionTransformer(np.log)), model()])
    refused = X.astype(complex)
    refused[3, 1] = 0
    for table in (X.astype(complex), refused):
        with pytest.raises(ValueError, match="Complex data not supported"):
            clone(pipeline).fit(table, Y)


def test_steps_side_by_side_draw_numbers_of_their_own():
    union = FeatureUnion([(name, RBFSampler(gamma=1.0, n_components=3)) for name in "ab"])
    fitted = PrivatePipeline([("union", union), model()]).fit(X, Y)
    first, second = (step.random_weights_ for _, step in fitted[0].transformer_list)
    assert not np.array_equal(first, second)


def test_a_generator_makes_steps_reproducible_and_is_not_advanced():
    sampler = RBFSampler(gamma=1.0, n_components=3, random_state=np.random.RandomState(0))
    pipeline = PrivatePipeline([("sampler", sampler), model()])
    first, second = (clone(pipeline).fit(X, Y)[0].random_weights_ for _ in range(2))
    assert np.array_equal(first, second)
