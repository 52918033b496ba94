"""The rules that carry the house, read off the syntax trees of the package."""

import ast
import inspect
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from contract import PACKAGED

import dpsk
from dpsk.estimators.classifier import PrivateClassifier
from dpsk.solvers import api
from dpsk.testing import find_peeks

PACKAGE = Path(dpsk.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Every room may import from those before it.
ROOMS = [
    "requirements",
    "privacy",
    "mechanisms",
    "elementwise",
    "calibration",
    "losses",
    "penalties",
    "data",
    "networks",
    "queries",
    "minimizers",
    "objectives",
    "solvers",
    "encodings",
    "_sklearn_compat",
    "export",
    "estimators",
    "pipelines",
    "model_selection",
    "evaluation",
    "reports",
    "testing",
    "audits",
    "budget_command",
    "__main__",
]


def relative(path):
    return path.relative_to(PACKAGE).as_posix()


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path):
    """Yield the rooms of dpsk that a module imports from."""
    package = ("dpsk", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names] if base == ["dpsk"] else [base]
        for name in names:
            if name[0] == "dpsk" and len(name) > 1:
                yield name[1]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_one_way(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert room in ROOMS, f"{relative(path)} is in no room: give it a place in ROOMS"
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    assert set(imported_rooms(path)) <= allowed


def test_every_import_inside_the_package_is_seen():
    """The reader of imports must not be blind: some that exist, in both spellings."""
    assert set(imported_rooms(PACKAGE / "queries" / "gradient.py")) == {"data", "losses", "mechanisms", "privacy"}
    assert set(imported_rooms(PACKAGE / "privacy" / "costs.py")) == {"privacy"}
    assert "solvers" in set(imported_rooms(PACKAGE / "testing" / "check_solvers.py"))


def attributes(path, name):
    return [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute) and node.attr == name
    ]


def enclosing(path, wanted):
    """Yield (class.function, node) for attribute accesses with this name."""
    for kind in ast.walk(ast.parse(path.read_text())):
        if isinstance(kind, ast.ClassDef):
            for function in kind.body:
                for node in ast.walk(function):
                    if isinstance(node, ast.Attribute) and node.attr == wanted:
                        yield f"{kind.name}.{getattr(function, 'name', '')}", node


@pytest.mark.slow
def test_one_line_opens_a_seal():
    """Contents are stored when a value is sealed, carried along by a shift, and read in ``release`` only."""
    places = {relative(path): list(enclosing(path, "_contents")) for path in MODULES if attributes(path, "_contents")}
    assert list(places) == ["data/private.py"]
    assert [where for where, _ in places["data/private.py"]] == [
        "Sealed.__init__",
        "Sealed.__add__",
        "SealedRows.release",
    ]
    assert len(attributes(PACKAGE / "data" / "private.py", "_contents")) == 3


def test_the_seal_is_opened_after_the_charge():
    (release,) = [
        node
        for node in ast.walk(ast.parse((PACKAGE / "data" / "private.py").read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "release"
    ]
    lines = {}
    for node in ast.walk(release):
        if isinstance(node, ast.Attribute):
            lines.setdefault(node.attr, node.lineno)
    assert lines["check"] < lines["_pay"] < lines["_contents"]


@pytest.mark.slow
def test_only_the_ledger_adds_up_prices():
    for name in ("_charged", "_limit"):
        assert {relative(path) for path in MODULES if attributes(path, name)} == {"privacy/ledger.py"}


# What carries solvers and encodings, and may import more than they: it defines them, or opens the door for them.
FRAME = {f"solvers/{name}.py" for name in ("__init__", "api", "solver", "sampled")}
FRAME |= {
    f"encodings/{name}.py"
    for name in ("__init__", "encoding", "numeric", "tabular", "field_features", "weighting", "fourier")
}


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) in ("solvers", "encodings")], ids=relative)
def test_solvers_do_not_peek(path):
    peeks = find_peeks(path.read_text())
    if relative(path) in FRAME:
        peeks = [
            what
            for what in peeks
            if re.search("attribute _[a-z]|random|uses the attribute (charge|scores|units)", what)
        ]
    assert peeks == []


SEE_ROWS = [path for path in MODULES if room_of(path) in ("losses", "data", "networks", "queries", "minimizers")]
SEE_ROWS.append(PACKAGE / "evaluation" / "opinions.py")

# NumPy's functions of which IEEE 754 fixes every bit: one rounding of an exact result, or none.
EXACT = """
    abs absolute add ceil copysign divide equal fabs floor fmax fmin frexp greater greater_equal isfinite isinf isnan
    isnat ldexp less less_equal logical_and logical_not logical_or logical_xor maximum minimum multiply negative
    nextafter not_equal rint sign signbit spacing sqrt square subtract trunc
"""

# Powers of public numbers, and of numbers of proposals; all others have a literal 2 as exponent, or only literals and
# constants of modules.
PUBLIC_POWERS = {
    "8.0 ** np.arange(6, 0, -1)",
    "0.25 ** np.arange(6)",
    "0.5 ** np.arange(50)",
    "0.5 ** np.arange(53 - UNIT_BITS - WEIGHT_BITS + 1)",
    "2.0 ** (-UNIT_BITS * np.arange(1.0, self._limbs + 1))",
    "2.0 ** np.arange(-4, 30, 1 / 60)",
    "(1 + step * convexity) ** np.arange(count)",
    "(least / most) ** (p / 2)",
    "2 ** min(36, math.ceil(math.log2(max(2.0, what.n_rows * eta / _LOST))))",
    "2.0 ** (-(bits + 2 * _FACTOR_BITS))",
    "2.0 ** bits",
    "2.0 ** lowest",
    "root ** 3",
    "roots ** 3",
}


def inexact(source):
    """Yield what a module takes from NumPy or SciPy that may give other bits at other places of memory."""
    names = {"np", "numpy"}

    def part(module):
        """Whether it is one that may hold such functions: numpy.lib.scimath, scipy.special._ufuncs."""
        return module.startswith(("numpy.", "scipy.special")) and module != "numpy.typing"

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found = getattr(np, node.attr, None)
            inside = isinstance(found, types.ModuleType) and node.attr != "linalg"  # np.emath.log, np.lib.scimath.log
            if inside or (isinstance(found, np.ufunc) and node.attr not in EXACT.split()):
                yield f"np.{node.attr}"
        elif isinstance(node, ast.Import):
            renamed = [a.name for a in node.names if a.name == "numpy" and a.asname not in (None, "np")]
            yield from renamed + [a.name for a in node.names if a.name == "scipy" or part(a.name)]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found = [a.name for a in node.names if node.module in ("numpy", "scipy") or part(node.module)]
            yield from (f"{node.module}.{name}" for name in found if name not in ("linalg", "sparse"))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Pow):
            yield ast.unparse(node)
        elif isinstance(node, ast.Name) and node.id == "pow":
            yield node.id
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            inside = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute | ast.Call)]
            constants = all(isinstance(n, ast.Name) and n.id.isupper() for n in inside)
            squared = isinstance(node.right, ast.Constant) and node.right.value == 2
            if not (constants or squared) and ast.unparse(node) not in PUBLIC_POWERS:
                yield ast.unparse(node)


@pytest.mark.parametrize("path", SEE_ROWS, ids=relative)
def test_rooms_that_see_rows_take_no_function_whose_bits_depend_on_the_place_of_a_row(path):
    """They have :mod:`dpsk.elementwise` for these: what a row adds must be a function of that row alone."""
    public = ["scipy.special.gammainc", "scipy.special.gammainccinv"] if path.name == "sampled_weights.py" else []
    assert list(inexact(path.read_text())) == public


@pytest.mark.parametrize(
    "line",
    [
        "np.exp(x)",
        "numpy.log1p(x)",
        "f = np.tanh",
        "np.power(x, 1.5)",
        "np.hypot(x, y)",
        "np.logaddexp.reduce(x)",
        "x ** 0.5",
        "2.0 ** x",
        "2.0 ** np.ceil(np.log2(x))",
        "from numpy import exp",
        "from scipy.special import expit",
        "from scipy import special",
        "import scipy.special",
        "import scipy.special as functions",
        "import numpy as n",
        "import numpy.lib.scimath as functions",
        "from numpy.lib.scimath import log",
        "from scipy.special._ufuncs import expit",
        "np.emath.log(x)",
        "np.lib.scimath.sqrt(x)",
        "x **= 0.5",
        "pow(x, 0.5)",
    ],
)
def test_the_reader_of_functions_is_not_blind(line):
    assert list(inexact(line))


def test_losses_add_up_nothing_but_classes():
    """NumPy's own sums over an axis add in an order that depends on the layout of the array."""
    tree = ast.parse((PACKAGE / "losses.py").read_text())
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"sum", "mean", "dot", "einsum", "cumsum", "prod", "linalg", "average", "reduce", "inner"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.MatMult)]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_guard_is_an_assert(path):
    """Assert statements vanish under ``python -O``."""
    assert not [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_randomness_comes_from_one_module(path):
    source = path.read_text()
    sources = [name for name in ("urandom", "np.random", "numpy.random", "import random", "secrets") if name in source]
    assert not sources or relative(path) == "mechanisms/randomness.py" or room_of(path) in ("testing", "audits")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_modules_stay_short_and_say_what_they_are(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 500
    assert ast.get_docstring(ast.parse(source))


def test_no_two_modules_have_the_same_name():
    names = [path.name for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    assert {name for name in names if names.count(name) > 1} == set()


def complexity(function):
    """One for the function, and one for each place where it may go another way."""
    branches = ast.If | ast.For | ast.While | ast.IfExp | ast.ExceptHandler | ast.comprehension | ast.match_case
    nodes = list(ast.walk(function))
    operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return 1 + operators + sum(isinstance(node, branches) for node in nodes)


def functions(path):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_functions_stay_short_and_simple(path):
    for function in functions(path):
        told = function.body[0] if ast.get_docstring(function) else None
        lines = function.end_lineno - function.lineno + 1 - (told.end_lineno - told.lineno + 1 if told else 0)
        assert lines <= 60, f"{function.name} has {lines} lines"
        assert complexity(function) <= 15, f"{function.name} has a complexity of {complexity(function)}"


def test_the_measure_of_complexity_counts_branches():
    (function,) = ast.parse("def f(x):\n  if x and x > 1:\n    return [y for y in x if y]\n  return 1 if x else 2").body
    assert complexity(function) == 5


def test_an_estimator_is_its_parameters_and_a_plan():
    """Files of single estimators are short, and what a subclass overrides is ``_plan`` alone."""
    base = set(vars(PrivateClassifier))
    for Estimator in PACKAGED:
        path = Path(inspect.getsourcefile(Estimator))
        assert len(path.read_text().splitlines()) <= 120, relative(path)
        for kind in Estimator.__mro__[: Estimator.__mro__.index(PrivateClassifier)]:
            if issubclass(kind, PrivateClassifier):
                methods = {name for name, value in vars(kind).items() if inspect.isfunction(value)}
                assert methods & base <= {"_plan", "__init__"}, kind
    assert PrivateClassifier.__abstractmethods__ == {"_plan"}


def private_names(path):
    """Yield the names with an underscore that a module uses of what is not its own."""
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and hasattr(node.target, "id")}
    own |= {t.id for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if node.attr not in own:
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from (a.name for a in node.names if a.name.startswith("_") and a.name != "_sklearn_compat")


def test_no_private_name_of_one_room_is_used_in_another():
    defined = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith("_"):
                defined.setdefault(node.name, set()).add(room_of(path))
    for path in MODULES:
        foreign = {name for name in private_names(path) if name in defined and room_of(path) not in defined[name]}
        assert not foreign, f"{relative(path)} uses {foreign}"


def test_the_reader_of_private_names_is_not_blind(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("from ..privacy import _hidden\n\ndef _own(x):\n    return x._own() + x._plan(1)\n")
    assert list(private_names(module)) == ["_hidden", "_plan"]


def test_solvers_use_nothing_that_their_list_does_not_name():
    """What a solver outside the package may import is what those inside do."""
    used = set()
    for path in MODULES:
        if room_of(path) == "solvers" and relative(path) not in FRAME:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level:
                    used |= {alias.name for alias in node.names}
    assert used <= set(api.__all__)


@pytest.mark.slow
def test_core_dependencies_only():
    """Importing dpsk imports its core dependencies only; an extra is imported by the function that needs it."""
    known = {"numpy", "scipy", "sklearn", "joblib", "dpsk"}
    for path in MODULES:
        tree = ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            if id(node) in inside:
                continue
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            for name in names:
                top = name.split(".")[0]
                assert top in known or top in sys.stdlib_module_names, f"{relative(path)} imports {name}"
