"""The picture of a lake's site that README shows: ``make screenshot`` takes it anew, of the lake that
``tests/site/showcase.py`` makes.

python -m tools.site_screenshot [FILE]    write it to FILE, by default to where README finds it
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from singerlake.site.build import build_site
from tests.site.showcase import showcase
from tools.chromium import find

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "assets" / "site.png"
WIDTH, HEIGHT = 1120, 1010


def take(picture: Path) -> None:
    """Write the first page of the site, as far as a screen shows it, as a PNG. Raises ``NoChromiumError``."""
    from playwright.sync_api import sync_playwright

    program = find()
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        build_site(showcase(calm=True), folder, title="Flights & sales")
        browser = playwright.chromium.launch(executable_path=program, args=sandbox)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto((Path(folder) / "index.html").as_uri())
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
