"""Texts of others, made visible: what could hide or turn letters is spelled out."""


def visible(text: str) -> str:
    """Return a text whose characters can all be seen: others, such as marks that turn the direction, as escapes."""
    return "".join(one if one.isprintable() or one in "\n\t" else _escape(one) for one in text)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
