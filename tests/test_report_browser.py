"""The report in a real browser: Chromium, headless, without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_cli import SAMPLE
from test_report import HOSTILE, hostile_corpus, write_corpus

from gpusim.dedup import DedupOptions, dedup

FLAGS = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"]
FLAGS += ["disable-component-update", "disable-sync", "host-resolver-rules=MAP * ~NOTFOUND"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with its driver here (Debian: chromium and chromium-driver)"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def show(browser: Any, folder: Path, corpus: Path, width: int = 1200, dark: bool = False, **options: Any) -> Any:
    page = folder / "report.html"
    summary = dedup([corpus], None, options=DedupOptions(dry_run=True, report=page, overwrite=True, **options))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    return summary


def quiet(browser: Any) -> None:
    """Nothing was logged: no error, no violation of the policy."""
    assert browser.get_log("browser") == []


def text(browser: Any, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def set_value(browser: Any, selector: str, value: str) -> None:
    """Set a control as a user does, and wait until the list has followed."""
    browser.set_script_timeout(20)
    browser.execute_async_script(
        "const [selector, value, done] = arguments; const element = document.querySelector(selector);"
        "element.value = value; element.dispatchEvent(new Event('input', {bubbles: true})); setTimeout(done, 250);",
        selector,
        value,
    )


def listed(browser: Any) -> list[str]:
    return browser.execute_script("return [...document.querySelectorAll('.group > summary')].map(s => s.textContent)")


def test_a_report_is_used(browser: Any, tmp_path: Path) -> None:
    summary = show(browser, tmp_path, SAMPLE)
    assert len(listed(browser)) == summary.groups
    assert text(browser, "#recount").startswith(f"{summary.groups} groups, {summary.removed} documents removed")

    set_value(browser, "#search", "gulls")
    found = listed(browser)
    assert len(found) == 1
    assert "en-harbour" in found[0]
    browser.execute_script("document.querySelector('.group > summary').click()")
    members = browser.execute_script("return document.querySelectorAll('.group .pair').length")
    assert members == 5
    assert browser.execute_script("return document.querySelectorAll('.group ins').length") > 0
    set_value(browser, "#search", "no such text anywhere")
    assert listed(browser) == []
    assert text(browser, "#shown").startswith("0 groups of ")
    set_value(browser, "#search", "")
    set_value(browser, "#least-distance", "1")
    assert 0 < len(listed(browser)) < summary.groups

    set_value(browser, "#bits", "0")
    assert text(browser, "#bits-now") == "0 bits"
    at_zero = dedup([SAMPLE], None, options=DedupOptions(dry_run=True, bits=128, max_distance=0, min_jaccard=0.8))
    assert text(browser, "#recount").startswith(f"{at_zero.groups} groups, {at_zero.removed} documents removed")
    assert browser.execute_script("return document.querySelectorAll('.group.gone').length") > 0
    quiet(browser)


def test_everything_is_reached_by_keyboard(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, tmp_path, SAMPLE)
    reached = []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        reached.append(active.get_attribute("id") or f"{active.tag_name}.{active.get_attribute('class')}")
        if active.tag_name == "summary" and browser.execute_script(
            "return arguments[0].parentNode.className === 'group'", active
        ):
            break
    for control in ("bits", "search", "least-size", "most-size", "least-distance", "most-distance", "order"):
        assert control in reached
    active.send_keys(Keys.ENTER)
    assert browser.execute_script("return arguments[0].parentNode.open", active)
    slider = browser.find_element("id", "bits")
    before = text(browser, "#bits-now")
    slider.send_keys(Keys.ARROW_LEFT)
    assert text(browser, "#bits-now") != before
    quiet(browser)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_can_be_read(browser: Any, tmp_path: Path, width: int, dark: bool) -> None:
    long = "unbroken" * 200
    corpus = write_corpus(tmp_path / f"{'n' * 150}.jsonl", [f"a b c d e {long}"] * 2 + ["a b c d"] * 2, [long, 1, 2, 3])
    show(browser, tmp_path, corpus, width, dark)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    low = browser.execute_script(_CONTRAST)
    assert low == [], "text with too little contrast (WCAG 2.2, 1.4.3)"
    quiet(browser)


_CONTRAST = """
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (c) => { c = c / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
const low = [];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || !element.getClientRects().length || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue;
  const svg = element.namespaceURI.endsWith('svg');
  const front = luminance(parse(getComputedStyle(element)[svg ? 'fill' : 'color']));
  let ground = element;
  while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
  const back = luminance(parse(getComputedStyle(ground || document.body).backgroundColor));
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  if (ratio < 4.5) low.push([element.tagName, element.className.baseVal ?? element.className, ratio]);
}
return low;
"""


def test_scripts_of_other_directions(browser: Any, tmp_path: Path) -> None:
    texts = [
        "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق",
        "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם",
    ]
    texts += ["人人生而自由在尊严和权利上一律平等他们赋有理性和良心"]
    corpus = write_corpus(tmp_path / "a.jsonl", [other for one in texts for other in (one, one + "!")])
    show(browser, tmp_path, corpus)
    browser.execute_script("document.querySelectorAll('details.group').forEach(d => { d.open = true; })")
    directions = browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => done([...document.querySelectorAll('.group')].map(g =>"
        "getComputedStyle(g.querySelector('.side .text')).direction)), 250)"
    )
    assert directions == ["rtl", "rtl", "ltr"]
    quiet(browser)


def test_hostile_texts_do_nothing(browser: Any, tmp_path: Path) -> None:
    corpus = hostile_corpus(tmp_path / "<img src=x onerror=window.hacked=1>.jsonl")
    show(browser, tmp_path, corpus, min_jaccard=0.5)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    set_value(browser, "#search", "window.hacked")
    assert len(listed(browser)) == 5  # four texts, and the ids of all
    assert browser.execute_script("return window.hacked") is None
    assert (
        browser.execute_script("return document.querySelectorAll('#list img, #list script, #list style').length") == 0
    )
    shown = browser.execute_script("return document.querySelector('#list').textContent")
    assert HOSTILE[0] in shown
    # The policy itself: script that got in by another way would not run either.
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; document.body.append(s);"
    )
    assert browser.execute_script("return window.hacked") is None
    assert ["script-src" in json.dumps(entry) for entry in browser.get_log("browser")] == [True]
