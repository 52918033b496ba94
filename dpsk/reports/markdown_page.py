"""A page as Markdown. Pictures become the words that describe them."""

import re
from functools import singledispatch

from .page import Block, Page, Paragraph, Pictures, Rows, Terms
from .visible import visible


def markdown_of(page: Page) -> str:
    """Return the page as Markdown, in which nothing that was given can become markup."""
    lines = [f"**{escaped(text)}**" for text in page.warnings]
    lines += [f"# {escaped(page.title)}", f"**{escaped(page.lead)}**"]
    lines += [f"**{escaped(text)}**" for text in page.doubts]
    for section in page.sections:
        lines.append(f"## {section.heading}")
        lines += [markdown(block) for block in section.blocks]
    return "\n\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text in which no letter has a meaning in Markdown or HTML."""
    plain = " ".join(visible(text).split())
    plain = re.sub(r"([\\`*_\[\]<>#|~&$!{}])", r"\\\1", plain)
    plain = re.sub(r"(?i)(:)(?=//)|(?<=www)(\.)", r"\\\g<0>", plain)  # some readers make links of bare addresses
    return re.sub(r"^(\d+)([.)])(?=\s|$)|^([-+=])", lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", plain)


@singledispatch
def markdown(block: Block) -> str:
    """Return a block."""
    raise TypeError(f"{type(block).__name__} is no block of a page")


@markdown.register
def _(block: Paragraph) -> str:
    return escaped(block.text)


@markdown.register
def _(block: Terms) -> str:
    return "\n".join(f"- **{escaped(name)}:** {escaped(text)}" for name, text in block.pairs)


@markdown.register
def _(block: Rows) -> str:
    lines = [block.head, ("---",) * len(block.head), *block.rows]
    cells = [" | ".join(cell if cell == "---" else escaped(cell) for cell in line) for line in lines]
    return f"{escaped(block.caption)}:\n\n" + "\n".join(f"| {line} |" for line in cells)


@markdown.register
def _(block: Pictures) -> str:
    return "\n\n".join(f"*{escaped(one.caption)}* {escaped(one.alt)}" for one in block.pictures)
