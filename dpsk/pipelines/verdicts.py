"""What is said of a step, and rules that say it: each rule is a class of steps and the parameters it is safe with."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeAlias

SAFE = ("stateless", "public settings", "vouched for", "private")
"""The verdicts under which a step may stand in a private pipeline; "learns", "mixes rows" and "unknown" are refused."""

VOUCH = "if it treats each row by itself and keeps nothing of the rows, vouch for it: public=[name of the step]"


@dataclass(frozen=True)
class Finding:
    """What a rule says of a step: one of seven verdicts, a sentence that tells why, and the private way."""

    verdict: str
    why: str
    instead: str = ""


Rule: TypeAlias = Callable[[Any], Finding]


@dataclass(frozen=True)
class Verdict:
    """What is known of one step of a pipeline.

    Parameters
    ----------
    name : str
        Its path, such as ``"scale"`` or ``"columns > cat > onehot"``.
    kind : str
        The name of its class, or ``"passthrough"``.
    verdict : str
        "stateless", "public settings", "vouched for", "private", "learns", "mixes rows" or "unknown".
    why : str
    instead : str
        The private way to the same end, "" where the step is safe.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dpsk.pipelines import verdict_of
    >>> found = verdict_of(StandardScaler())
    >>> found.verdict, found.safe
    ('learns', False)
    """

    name: str
    kind: str
    verdict: str
    why: str
    instead: str

    @property
    def safe(self) -> bool:
        """Whether the step may stand in front of a private classifier, or is one."""
        return self.verdict in SAFE


@dataclass(frozen=True)
class Need:
    """A parameter that must have a safe value, and what the step does otherwise."""

    parameter: str
    holds: Callable[[Any], bool]
    otherwise: str
    instead: str
    verdict: str = "learns"


@dataclass(frozen=True)
class Treats:
    """The rule for a class that is safe with some parameters: its needs, and the parameters that may be anything.

    A parameter that is neither must have its default: a later version may have given it a meaning nobody has checked.
    """

    needs: tuple[Need, ...] = ()
    free: tuple[str, ...] = ()
    why: str = "keeps nothing of the rows, and makes of each row a function of this row"

    def __call__(self, step: Any) -> Finding:
        given = step.get_params(deep=False)
        for need in self.needs:
            if not need.holds(given.get(need.parameter)):
                return Finding(need.verdict, need.otherwise, need.instead)
        known = {*self.free, *(need.parameter for need in self.needs)}
        for name, parameter in signature(type(step)).parameters.items():
            value = given.get(name)
            if name not in known and not (value is parameter.default or _equal(value, parameter.default)):
                return Finding(
                    "unknown", f"nothing is known of {name}={_short(value)}", f"leave {name} out, or {VOUCH}"
                )
        return Finding("public settings" if self.needs else "stateless", self.why)


def public_name(thing: Any) -> str:
    """Return the name under which a class or a function is found in its library; "" if another one is found there.

    Parts of a path that begin with an underscore are left out: libraries rename their files.
    """
    module, name = str(getattr(thing, "__module__", None)), str(getattr(thing, "__qualname__", None))
    if getattr(sys.modules.get(module), name, None) is not thing:
        return ""
    return ".".join([*(part for part in module.split(".") if not part.startswith("_")), name])


def learns(what: str, instead: str, verdict: str = "learns") -> Rule:
    """Return the rule for a class that no parameters make safe."""
    found = Finding(verdict, what, instead)
    return lambda step: found


def each(names: Iterable[str], rule: Rule) -> dict[str, Rule]:
    """Return one rule for several classes."""
    return dict.fromkeys(names, rule)


def is_(*values: Any) -> Callable[[Any], bool]:
    """Return the condition that a parameter is one of these words, truth values or None."""
    return lambda value: any(value is one or (isinstance(one, str) and _equal(value, one)) for one in values)


def is_number(value: Any) -> bool:
    """Return whether a parameter is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_given(value: Any) -> bool:
    """Return whether a parameter holds values, not the name of a way to find them."""
    return value is not None and not isinstance(value, str) and not callable(value)


def _equal(value: Any, other: Any) -> bool:
    try:
        return type(value) is type(other) and bool(value == other or (value != value and other != other))
    except (TypeError, ValueError):
        return False


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
