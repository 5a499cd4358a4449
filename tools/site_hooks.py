"""Hooks of MkDocs: some pages of the site stand elsewhere in the project, where others refer to them.

Links in Markdown are written for readers of the files. The hooks point them at the site's pages. A link to a file that
is no page of the site becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASE.md": "release.md",
    "SECURITY.md": "security.md",
    "shared/docs/format/hash.md": "reference/format/hash.md",
    "shared/docs/format/index.md": "reference/format/index.md",
    "shared/docs/format/reading.md": "reference/format/reading.md",
    "shared/docs/format/rebuilding.md": "reference/format/rebuilding.md",
    "shared/docs/format/stores.md": "reference/format/stores.md",
    "shared/docs/format/tables.md": "reference/format/tables.md",
    "shared/docs/format/writing.md": "reference/format/writing.md",
}
"""Pages of the site by the file that holds their text."""
_LINK = re.compile(r"(?P<text>\[(?:[^\[\]]|\[[^\[\]]*\])+\])\((?P<path>(?![a-z]+:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def page_of(path: str) -> str | None:
    """The site's page, or other file, that shows a file of the project; None where there is none."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    return path.removeprefix(DOCS) if path.startswith(DOCS) else None


def with_site_links(markdown: str, source: str) -> str:
    """The text of the file ``source``, a path from the project's root, with links between pages of the site."""
    here = posixpath.dirname(page_of(source) or "")

    def link(found: re.Match[str]) -> str:
        page = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(source), found["path"])))
        if page is None:
            return found["text"][1:-1]
        return f"{found['text']}({posixpath.relpath(page, here or '.')}{found['anchor'] or ''})"

    return _LINK.sub(link, markdown)


def on_post_build(config: Any) -> None:
    """Leave out the page for what is not found: its links begin at the server's root, and the site may lie below it."""
    (Path(config["site_dir"]) / "404.html").unlink(missing_ok=True)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not below ``docs/``."""
    from mkdocs.structure.files import File

    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


_BOOSTS = (("explanation/decisions/", 0.2), ("changelog", 0.2), ("how-to/", 2), ("reference/settings", 4))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point the links of a page at pages, and have the search show what is done before why."""
    boost = next((boost for begins, boost in _BOOSTS if page.file.src_uri.startswith(begins)), 1)
    page.meta.setdefault("search", {"boost": boost})
    source = Path(page.file.abs_src_path).resolve().relative_to(ROOT).as_posix()
    return with_site_links(markdown, source)
