"""Texts of others, made visible and harmless."""

from html import escape


def visible(text: str) -> str:
    """Return a text whose characters can all be seen: others, such as marks that turn the direction, as escapes."""
    return "".join(one if one.isprintable() or one in "\n\t" else _spelled(one) for one in text)


def html_text(text: str) -> str:
    """Return a text in which no character has a meaning in HTML or SVG."""
    return escape(visible(text))


def cut_in_the_middle(text: str, letters: int) -> str:
    """Return a text of so many letters at most, without its middle: names that begin alike differ at their ends."""
    if len(text) <= letters:
        return text
    end = (letters - 1) // 2
    return f"{text[: letters - 1 - end].rstrip()}…{text[len(text) - end :].lstrip()}"


def _spelled(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
