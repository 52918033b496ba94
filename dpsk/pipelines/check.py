"""What a pipeline learns from private rows: a verdict for each step, however deep it lies."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .containers import parts_of
from .steps import verdict_of
from .verdicts import Verdict

_MOST = 256  # combinations of parameters of steps in a search that are looked at
_BETWEEN = " > "


@dataclass(frozen=True, repr=False)
class PipelineCheck:
    """What is known of each step of a pipeline.

    Parameters
    ----------
    verdicts : tuple of Verdict
        One for each step, in their order. Containers that only hand rows to their parts have none.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dpsk import DPLogisticRegression, check_pipeline
    >>> found = check_pipeline(make_pipeline(StandardScaler(), DPLogisticRegression()))
    >>> found.safe, [verdict.name for verdict in found.refused]
    (False, ['standardscaler'])
    """

    verdicts: tuple[Verdict, ...]

    @property
    def safe(self) -> bool:
        """Whether every step is safe."""
        return not self.refused

    @property
    def refused(self) -> tuple[Verdict, ...]:
        """The verdicts of the steps that are not safe."""
        return tuple(verdict for verdict in self.verdicts if not verdict.safe)

    def require(self) -> None:
        """Raise ValueError if a step is refused, with the private way for each."""
        if self.refused:
            lines = [f"  {one.name} ({one.kind}) {one.why}. Instead: {one.instead}" for one in self.refused]
            raise ValueError(
                "\n".join(["these steps of the pipeline show private rows without noise, so it is refused:", *lines])
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data."""
        return {"safe": self.safe, "verdicts": [{**asdict(one), "safe": one.safe} for one in self.verdicts]}

    def __str__(self) -> str:
        lines = [("step", "kind", "verdict")] + [(one.name, one.kind, one.verdict) for one in self.verdicts]
        widths = [max(len(line[k]) for line in lines) for k in range(3)]
        shown = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines]
        for place, one in enumerate(self.verdicts, 1):
            shown[place] += f"  {one.why}" + (f". Instead: {one.instead}" if one.instead else "")
        return "\n".join([*(line.rstrip() for line in shown), "safe" if self.safe else f"{len(self.refused)} refused"])

    __repr__ = __str__


def check_pipeline(pipeline: Any, *, public: Collection[Any] = ()) -> PipelineCheck:
    """Return what each step of a pipeline learns from its rows, and the private way to the same end.

    Parameters are public: the check cannot know where their numbers come from. It looks at parameters, not at what a
    fitted step holds: a step that was fitted with other parameters before may still hold what it learned then.

    Parameters
    ----------
    pipeline : estimator
        A pipeline, a ColumnTransformer, a search, any other estimator. It need not be fitted, and is not changed.
    public : collection of str and estimators
        Steps that you vouch for, by name (``"onehot"``, or ``"columns > cat > onehot"`` where several have it) or
        themselves: their fit keeps nothing of private rows but the names and types of columns, and they make of each
        row a function of this row alone. To vouch for a container is to vouch for all its parts. A step that is known
        to learn stays refused: fit it to public rows, and put it into a FrozenEstimator.

    Returns
    -------
    PipelineCheck

    Formal guarantee
    ----------------
    (docs/guarantees.md, 16.1 and 16.2)
    A pipeline of steps that are called safe, with a private classifier at its end, keeps the guarantee of the
    classifier, if what you vouch for is true, and if errors and warnings are not shown.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from dpsk import DPLogisticRegression, check_pipeline
    >>> model = make_pipeline(FunctionTransformer(np.log1p), DPLogisticRegression())
    >>> check_pipeline(model).safe
    True
    >>> double = FunctionTransformer(lambda X: 2 * X)
    >>> check_pipeline(double).safe, check_pipeline(double, public=[double]).safe
    (False, True)
    """
    vouched = _Vouched(pipeline, public)
    return PipelineCheck(tuple(_verdicts(pipeline, (), vouched)))


class _Vouched:
    """The steps that somebody vouches for."""

    def __init__(self, pipeline: Any, public: Collection[Any]) -> None:
        if isinstance(public, str) or not isinstance(public, Collection):
            shown = [public] if isinstance(public, str) else ["onehot"]
            raise ValueError(f"public={public!r} must be a list of names or steps, such as public={shown}")
        paths = _paths(pipeline, require_plain=bool(public))
        self._objects = [step for step in public if not isinstance(step, str)]
        self._paths = {path for path, step in paths.items() if any(step is one for one in self._objects)}
        for name in public:
            if isinstance(name, str):
                self._paths.add(_found(name, paths))
            elif not any(name is step for step in paths.values()):
                raise ValueError(f"public holds {name!r}, which is no step of the pipeline: give the very same object")

    def __contains__(self, asked: tuple[tuple[str, ...], Any]) -> bool:
        path, step = asked
        return _BETWEEN.join(path) in self._paths or any(step is one for one in self._objects)


def _paths(pipeline: Any, *, require_plain: bool) -> dict[str, Any]:
    """Return the steps by their paths; raise ValueError for names that look like a path, where that is asked for."""
    steps = list(_all_steps(pipeline, ()))
    strange = [name for path, _ in steps for name in path if _BETWEEN in name]
    if require_plain and strange:
        raise ValueError(f"the name {strange[0]!r} of a step looks like a path: rename it before you vouch for steps")
    return {_BETWEEN.join(path): step for path, step in steps}


def _found(name: str, paths: Mapping[str, Any]) -> str:
    """Return the path of the step with a name; raise ValueError if there is none, or more than one."""
    if name in paths:
        return name
    ends = [path for path in paths if path.endswith(_BETWEEN + name)]
    if len(ends) != 1:
        count = f"the name of {len(ends)} steps" if ends else "no name of a step"
        raise ValueError(f"public names {name!r}, which is {count}: it must be one of {sorted(paths)}")
    return ends[0]


def _all_steps(step: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path or (type(step).__name__,), step
    for name, part in parts_of(step) or ():
        yield from _all_steps(part, (*path, name))


def _verdicts(step: Any, path: tuple[str, ...], vouched: _Vouched) -> Iterator[Verdict]:
    """Yield the verdicts of a step and its parts: of a container by itself only if it does more than hand on rows."""
    own = verdict_of(step, _BETWEEN.join(path))
    if (path or (type(step).__name__,), step) in vouched:
        frozen = own.kind == "FrozenEstimator"  # it is not fitted again, so what it has learned may be public
        known = [] if frozen else [one for one in _verdicts(step, path, _Vouched(step, ())) if one.verdict == "learns"]
        why = "you vouch for it" + ("" if own.safe else f"; without your word: {own.why}")
        yield from known or [Verdict(own.name, own.kind, "vouched for", why, "")]
        return
    parts = parts_of(step)
    if not parts or own.verdict not in ("stateless", "public settings"):
        yield own
    for name, part in parts or ():
        yield from _verdicts(part, (*path, name), vouched)
    if hasattr(step, "param_distributions"):
        yield from _of_candidates(step, path, vouched)


def _of_candidates(search: Any, path: tuple[str, ...], vouched: _Vouched) -> Iterator[Verdict]:
    """Yield what is refused under some of the parameters that a search tries: they may make a safe step learn."""
    last, inner = "", search.estimator
    while isinstance(inner, Pipeline):
        last, inner = f"{last}{inner.steps[-1][0]}__", inner.steps[-1][1]
    asked = search.param_distributions
    seen = set()
    for candidates in [asked] if isinstance(asked, Mapping) else asked:
        front = {
            name: values
            for name, values in candidates.items()
            if not (name.startswith(last) and "__" not in name[len(last) :]) or _holds_steps(values)
        }
        grid = list(islice(product(*front.values()), _MOST + 1)) if all(map(_is_list, front.values())) else None
        if grid is None or len(grid) > _MOST:
            why = f"tries more values of {sorted(front)} than can be looked at"
            yield Verdict(_BETWEEN.join(path), type(search).__name__, "unknown", why, "short lists of values")
            continue
        for values in grid if front else ():
            settings = dict(zip(front, values, strict=True))
            for one in _under(settings, search, path, vouched):
                if not one.safe and (one.name, one.why) not in seen:
                    seen.add((one.name, one.why))
                    yield replace(one, why=f"{one.why} (with {settings})")


def _under(settings: Mapping[str, Any], search: Any, path: tuple[str, ...], vouched: _Vouched) -> Iterator[Verdict]:
    """Yield the verdicts of a search under some parameters of the steps in front of its classifier."""
    try:
        tried = clone(search.estimator).set_params(**settings)
    except (ValueError, TypeError) as error:
        why = f"cannot set some of its candidates: {type(error).__name__}"
        yield Verdict(_BETWEEN.join(path), type(search).__name__, "unknown", why, "candidates that fit together")
    else:
        yield from _verdicts(tried, (*path, "estimator"), vouched)


def _holds_steps(values: Any) -> bool:
    return _is_list(values) and any(hasattr(value, "fit") for value in values)


def _is_list(values: Any) -> bool:
    return not hasattr(values, "rvs") and hasattr(values, "__len__")
