"""The document of theorems: its numbers are those that docstrings give, and every theorem names a test that exists."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "guarantees.md").read_text()
MODULES = sorted((ROOT / "dpsk").rglob("*.py"))

HEADING = re.compile(r"^## (\d+) \S", re.M)
ITEM = re.compile(r"^\*\*(\d+)\.(\d+) (Definition|Theorem|Lemma|Rule|Assumption)\b", re.M)
TEST = re.compile(r"tests/(\w+)\.py::(\w+)")
POINTER = re.compile(r"docs/guarantees\.md,\s+(\d+)\.(\d+)(?:\s+(to|and)\s+(\d+)\.(\d+))?")
WHOLE_SECTION = re.compile(r"docs/guarantees\.md,\s+section\s+(?:\d|1[0-4])\b")


def items():
    """Return the kind and the text of every numbered statement, by its number."""
    starts = list(ITEM.finditer(DOCUMENT))
    ends = sorted(
        [match.start() for match in starts] + [match.start() for match in re.finditer("^## ", DOCUMENT, re.M)]
    )
    found = {}
    for match in starts:
        number = int(match[1]), int(match[2])
        assert number not in found, f"{number} is there twice"
        end = min([place for place in ends if place > match.start()], default=len(DOCUMENT))
        found[number] = match[3], DOCUMENT[match.start() : end]
    return found


ITEMS = items()


@lru_cache
def functions_in(name):
    tree = ast.parse((ROOT / "tests" / f"{name}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def pointers(text):
    """Yield the numbers that a text refers to; those between the ends of a range as well."""
    for match in POINTER.finditer(text):
        first = int(match[1]), int(match[2])
        last = first if match[3] is None else (int(match[4]), int(match[5]))
        yield from [first, last]
        if match[3] == "to":
            assert last > first, match[0]
            assert last[0] == first[0], match[0]
            yield from [(first[0], k) for k in range(first[1], last[1])]


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (found := ast.get_docstring(node)):
            yield found


def test_numbers_follow_one_another():
    sections = [int(number) for number in HEADING.findall(DOCUMENT)]
    assert sections == list(range(1, 18))
    expected = {section: [k for s, k in ITEMS if s == section] for section in sections}
    assert list(ITEMS) == [(section, k + 1) for section in sections for k in range(len(expected[section]))]
    assert min(map(len, expected.values())) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("number", ITEMS, ids=lambda number: "{}.{}".format(*number))
def test_every_theorem_names_a_test_and_a_module(number):
    kind, text = ITEMS[number]
    named = TEST.findall(text)
    for file, function in named:
        assert (ROOT / "tests" / f"{file}.py").exists(), f"there is no tests/{file}.py"
        assert function in functions_in(file), f"there is no test {function} in tests/{file}.py"
    for module in re.findall(r"`(dpsk/[\w/.]+)`", text):
        assert (ROOT / module).exists(), f"there is no {module}"
    if kind in ("Theorem", "Lemma", "Rule"):
        assert "Used in" in text
        assert named, "names no test"
    assert text.count("*Proof") <= 2


def test_what_names_a_number_names_one_that_exists():
    said = {path.relative_to(ROOT).as_posix(): path.read_text() for path in MODULES}
    said |= {f"docs/{path.name}": path.read_text() for path in (ROOT / "docs").glob("*.md")}
    found = {name: set(pointers(text)) for name, text in said.items()}
    for name, numbers in found.items():
        assert numbers <= set(ITEMS), f"{name} refers to {sorted(numbers - set(ITEMS))}"
        mentions = said[name].count("docs/guarantees.md")
        numbered = POINTER.findall(said[name]) + WHOLE_SECTION.findall(said[name])
        assert mentions == len(numbered), f"{name} mentions the document without a number"
    assert len(set.union(*found.values())) > 60


@pytest.mark.parametrize("number", [number for number in ITEMS if number[0] != 14], ids="{0[0]}.{0[1]}".format)
def test_a_statement_refers_to_statements_that_exist(number):
    """Numbers with one dot in the text of a statement are references, unless they stand in a formula or a table."""
    text = TEST.sub("", ITEMS[number][1])
    referred = re.findall(
        r"(?:\(|, | and | to |by |of |from |as |[Uu]se |\bin )(\d{1,2})\.(\d{1,2})(?=[\s,.;:)])", text
    )
    assert {(int(a), int(b)) for a, b in referred} <= set(ITEMS), text


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_formal_guarantee_points_to_its_number(path):
    for found in docstrings(path):
        if "Formal guarantee" in found:
            numbers = set(pointers(found))
            assert numbers, "a formal guarantee without a number of docs/guarantees.md"
            named = "".join(ITEMS[number][1] for number in numbers)
            module = path.relative_to(ROOT).as_posix()
            assert module in named, f"{sorted(numbers)} do not name {module}"


def test_every_source_is_in_the_list():
    text, sources = DOCUMENT.split("## Sources")
    sources = sources.replace("\n", " ")
    cited = set(re.findall(r"([A-Z][\w-]+)(?:(?:,| &|\s)+[A-Z][\w-]+| et\s+al\.)*,?\s+((?:19|20)\d\d)\b", text))
    assert len(cited) > 30
    for surname, year in cited:
        assert re.search(rf"\b{surname}\b[^.;]*\b{year}\b", sources), f"{surname} {year} is not among the sources"


def test_it_can_be_found():
    for page in ("README.md", "docs/threat-model.md", "docs/extending.md"):
        text = (ROOT / page).read_text()
        for target in re.findall(r"\]\(([\w./-]*guarantees\.md)\)", text):
            assert ((ROOT / page).parent / target).resolve() == ROOT / "docs" / "guarantees.md"
        assert "guarantees.md)" in text, f"{page} has no link to docs/guarantees.md"
