"""A page as HTML: one file, without scripts and without anything from elsewhere."""

import re
from functools import singledispatch

from .page import Block, Page, Paragraph, Pictures, Rows, Terms
from .visible import html_text


def document_of(page: Page) -> str:
    """Return the page as an HTML document of its own."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{html_text(page.title)}</title>\n<style>{_DOCUMENT}</style>\n</head>\n<body>\n{fragment_of(page)}\n"
        "</body>\n</html>\n"
    )


def fragment_of(page: Page) -> str:
    """Return the page as a part of another, such as a notebook."""
    parts = [f'<p class="no" role="alert">{_inline(text)}</p>' for text in page.warnings]
    parts += [f"<h1>{html_text(page.title)}</h1>", f'<p class="lead">{_inline(page.lead)}</p>']
    parts += [f'<p class="weak">{_inline(text)}</p>' for text in page.doubts]
    for section in page.sections:
        inside = "\n".join(html(block) for block in section.blocks)
        parts.append(f"<section>\n<h2>{section.heading}</h2>\n{inside}\n</section>")
    body = "\n".join(parts)
    return f'<article class="dpsk-report">\n<style>{_STYLE}</style>\n{body}\n</article>'


@singledispatch
def html(block: Block) -> str:
    """Return a block."""
    raise TypeError(f"{type(block).__name__} is no block of a page")


@html.register
def _(block: Paragraph) -> str:
    return f"<p>{_lines(block.text)}</p>"


@html.register
def _(block: Terms) -> str:
    return "<dl>" + "".join(f"<dt>{_inline(a)}</dt><dd>{_lines(b)}</dd>" for a, b in block.pairs) + "</dl>"


@html.register
def _(block: Rows) -> str:
    head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in block.head)
    rows = "".join(
        f'<tr><th scope="row">{_inline(first)}</th>' + "".join(f"<td>{_inline(cell)}</td>" for cell in rest) + "</tr>"
        for first, *rest in block.rows
    )
    table = (
        f"<table><caption>{_inline(block.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return f'<div class="wide" tabindex="0">{table}</div>'


@html.register
def _(block: Pictures) -> str:
    figures = "".join(
        f"<figure>{one.svg}<figcaption>{_inline(one.caption)}</figcaption></figure>" for one in block.pictures
    )
    alone = " alone" if len(block.pictures) == 1 else ""
    return f'<div class="pictures{alone}">{figures}</div>'


def _inline(text: str) -> str:
    """Return a text in which numbers such as 1e-06 stay on one line."""
    return re.sub(r"\d\S*e-\d+\S*", r'<span class="whole">\g<0></span>', html_text(text))


def _lines(text: str) -> str:
    return "<br>".join(_inline(line) for line in text.splitlines())


_LIGHT = (
    "--paper:#fff;--ink:#1a1a1a;--soft:#555;--rule:#c4c4c4;--here:#0060a8;--other:#a34700;"
    "--no:#a30000;--on-no:#fff;--weak:#fff3d6;--on-weak:#4a3200;"
)
_DARK = (
    "--paper:#16181b;--ink:#ececec;--soft:#b4b4b4;--rule:#4a4d52;--here:#6db9f2;--other:#f0a060;"
    "--no:#b00000;--on-no:#fff;--weak:#3a2d0c;--on-weak:#ffe3a3;"
)
_DOCUMENT = (
    f"html{{{_LIGHT}background:var(--paper)}}@media(prefers-color-scheme:dark){{html{{{_DARK}}}}}"
    "body{margin:0 auto;max-width:60rem;padding:1rem}"
    f"@media print{{html{{{_LIGHT}}}body{{max-width:none;padding:0}}}}@page{{size:A4;margin:11mm 13mm}}"
)
_STYLE = f"""
.dpsk-report{{{_LIGHT}background:var(--paper);color:var(--ink);font:1rem/1.45 system-ui,sans-serif;
overflow-wrap:anywhere}}
@media(prefers-color-scheme:dark){{.dpsk-report{{{_DARK}}}}}
.dpsk-report h1{{font-size:1.6rem;line-height:1.2;margin:.6rem 0 .2rem}}
.dpsk-report h2{{font-size:1.15rem;margin:1.3rem 0 .3rem;border-bottom:1px solid var(--rule)}}
.dpsk-report p{{margin:.4rem 0}}
.dpsk-report .lead{{font-size:1.15rem;font-weight:600}}
.dpsk-report .no{{background:var(--no);color:var(--on-no);font-weight:700;padding:.6rem .8rem;border-radius:4px}}
.dpsk-report .weak{{background:var(--weak);color:var(--on-weak);padding:.5rem .8rem;border-radius:4px}}
.dpsk-report dl{{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:.4rem 0}}
.dpsk-report dt{{font-weight:600;max-width:14rem}}
.dpsk-report dd{{margin:0}}
.dpsk-report .whole{{white-space:nowrap}}
.dpsk-report .wide{{overflow-x:auto}}
.dpsk-report table{{border-collapse:collapse;font-size:.92rem;margin:.4rem 0}}
.dpsk-report caption{{text-align:left;color:var(--soft)}}
.dpsk-report th,.dpsk-report td{{text-align:left;font-weight:400;padding:.15rem .9rem .15rem 0;vertical-align:top;
border-bottom:1px solid var(--rule);overflow-wrap:normal;background:none;color:inherit}}
.dpsk-report thead th{{font-weight:600}}
.dpsk-report .pictures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem}}
.dpsk-report .pictures.alone{{float:left;width:24rem;max-width:100%;margin-right:2rem}}
.dpsk-report section{{clear:both}}
.dpsk-report figure{{margin:.4rem 0;max-width:26rem}}
.dpsk-report figcaption{{font-size:.88rem;color:var(--soft)}}
.dpsk-report svg{{width:100%;height:auto;display:block}}
.dpsk-report svg text{{fill:var(--ink);font:13px system-ui,sans-serif}}
.dpsk-report svg polyline{{fill:none;stroke-width:2}}
.dpsk-report .axis{{stroke:var(--soft)}}
.dpsk-report .here{{stroke:var(--here);stroke-width:3!important}}
.dpsk-report polyline.alone{{stroke:var(--other);stroke-dasharray:7 4}}
.dpsk-report .perfect{{stroke:var(--soft);stroke-dasharray:2 4}}
.dpsk-report .bar,.dpsk-report .mark{{fill:var(--here)}}
.dpsk-report .bar.broken{{fill:var(--other)}}
.dpsk-report .hatch{{stroke:var(--paper);stroke-width:2}}
.dpsk-report .claim{{stroke:var(--ink);stroke-width:3}}
.dpsk-report .open{{fill:var(--paper);stroke:var(--ink);stroke-width:1.5}}
@media(max-width:44rem){{.dpsk-report .pictures.alone{{float:none}}}}
@media(max-width:34rem){{.dpsk-report dl{{display:block}}.dpsk-report dd{{margin-bottom:.4rem}}}}
@media print{{.dpsk-report{{{_LIGHT}font-size:8.3pt;line-height:1.3}}
.dpsk-report h1{{font-size:14pt}}.dpsk-report .lead{{font-size:10pt}}
.dpsk-report h2{{font-size:10pt;margin:2mm 0 .5mm;break-after:avoid}}
.dpsk-report p{{margin:.6mm 0}}.dpsk-report dl{{display:block;margin:.6mm 0}}
.dpsk-report dt{{display:inline}}.dpsk-report dt::after{{content:": "}}
.dpsk-report dd{{display:inline}}.dpsk-report dd::after{{content:"";display:block}}
.dpsk-report table{{font-size:8pt;margin:.6mm 0}}.dpsk-report th,.dpsk-report td{{padding:.1mm 3mm .1mm 0}}
.dpsk-report figure{{max-width:62mm;margin:1mm 0;break-inside:avoid}}.dpsk-report figcaption{{font-size:7.5pt}}
.dpsk-report .pictures{{display:flex;gap:6mm}}
.dpsk-report .pictures.alone{{width:62mm}}.dpsk-report section:has(.pictures.alone){{break-inside:avoid}}
.dpsk-report .wide{{overflow:visible;break-inside:avoid}}
.dpsk-report .no,.dpsk-report .weak,.dpsk-report .bar{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
"""
