"""The system's own Chromium, driven by Playwright; no browser is ever downloaded."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
AXE = "WEFT_AXE"
"""Holds the path of axe-core's axe.min.js, where there is one."""
REQUIRED = "WEFT_NEEDS_BROWSER"
"""Set where a missing browser is a failure, not a reason to skip."""


def missing(reason: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason}, and {REQUIRED} is set")
    pytest.skip(reason)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped, and says why, where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the page is not tried in a browser: the package playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing(f"the page is not tried in a browser: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        # the sandbox needs rights that a container's root does not have; only our own page is opened
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def settle(page: Any, section: str) -> None:
    """Wait until an answer has ended."""
    from playwright.sync_api import expect

    expect(page.locator(f"#{section} .status")).to_have_text(re.compile("ended|stopped|as long as|failed"), timeout=8000)
    expect(page.locator(f"#{section} .stop")).to_be_hidden()


def complaints(page: Any, axe: str) -> list[str]:
    """What axe-core has to say of a page as it is now."""
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(found => found.violations)")
    return [f"{each['impact']}: {each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]
