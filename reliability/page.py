"""The server's page in a real browser: how soon it paints with a cold cache, what it weighs, and what axe-core says of it.

Chromium, driven by Playwright, opens the page of a real `weft serve` with small models, each time as a new browser. Without either the
campaign is skipped; without axe-core (npm install axe-core; --axe node_modules/axe-core/axe.min.js) that part is.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path
from typing import Any

from campaign import Campaign, arguments, workplace
from fuzz import served

SECONDS = 1.0
"""First paint at the latest."""
SERIOUS = ("serious", "critical")
TABS = ("chat", "complete", "attention")
FACTS = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const files = [page, ...performance.getEntriesByType("resource")];
  const paints = Object.fromEntries(performance.getEntriesByType("paint").map(each => [each.name, each.startTime / 1000]));
  const bytes = files.reduce((sum, each) => sum + each.transferSize, 0);
  return { paint: paints["first-contentful-paint"], ready: performance.now() / 1000, bytes };
}"""


def opened(browser: Any, url: str) -> Any:
    page = browser.new_context().new_page()
    page.goto(url)
    page.locator("#model option").first.wait_for(state="attached")
    return page


def painted(chromium: Any, path: str, url: str) -> dict[str, float]:
    """Seconds to the first paint and until the models are listed, and bytes, of a browser that has seen nothing yet."""
    browser = chromium.launch(executable_path=path, args=["--no-sandbox"])
    try:
        page = opened(browser, url)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        found: dict[str, float] = page.evaluate(FACTS)
        return found
    finally:
        browser.close()


def violations(page: Any, axe: str) -> list[dict[str, Any]]:
    page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate("axe.run().then(found => found.violations)")
    return found


def looked_at(campaign: Campaign, chromium: Any, path: str, url: str, axe: str) -> None:
    browser = chromium.launch(executable_path=path, args=["--no-sandbox"])
    for scheme in ("light", "dark"):
        for tab in TABS:
            page = opened(browser, f"{url}/#{tab}")
            page.emulate_media(color_scheme=scheme)
            found = violations(page, axe)
            serious = [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found if each["impact"] in SERIOUS]
            campaign.row(tab=tab, scheme=scheme, violations=len(found), serious=len(serious))
            campaign.check(not serious, f"{tab}, {scheme}: {serious}")
            page.context.close()
    browser.close()


def main() -> int:
    parser = arguments("page", __doc__)
    parser.add_argument("--opened", type=int, default=9, help="times that the page is opened")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser's path")
    parser.add_argument("--axe", type=Path, default=Path("node_modules/axe-core/axe.min.js"), help="the path of axe.min.js")
    options = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("page: skipped, as playwright is not installed; pip install playwright")
        return 0
    if not Path(options.chromium).exists():
        print(f"page: skipped, as there is no browser at {options.chromium}; name one with --chromium")
        return 0
    campaign = Campaign("page", options.device, options.record)
    with workplace() as folder, served(folder) as (url, _), sync_playwright() as playwright:
        found = [painted(playwright.chromium, options.chromium, url) for _ in range(options.opened)]
        paints = [each["paint"] for each in found]
        load = round(os.getloadavg()[0], 1)
        facts = {
            "median_paint": statistics.median(paints),
            "slowest_paint": max(paints),
            "slowest_ready": max(each["ready"] for each in found),
        }
        campaign.row(opened=len(found), **{name: round(value, 3) for name, value in facts.items()}, bytes=int(found[0]["bytes"]), load=load)
        campaign.check(max(paints) <= SECONDS, f"the first paint took {max(paints):.2f} s")
        if options.axe.exists():
            looked_at(campaign, playwright.chromium, options.chromium, url, options.axe.read_text())
        else:
            print(f"page: axe-core is left out, as there is no {options.axe}; npm install axe-core, or name it with --axe")
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
