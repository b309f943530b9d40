# SPDX-License-Identifier: BSD-2-Clause
"""``make test-site``: open the pages in build/site in Chromium, from files and from a server.

External links are not followed, because the site must work without a network. Screenshots of some
pages are stored in build/site-shots for people.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build/site"
SHOTS = ROOT / "build/site-shots"
#: Pages that Sphinx adds to the pages of docs/.
_MADE = {"genindex", "search"}
WIDE, NARROW = (1280, 900), (390, 800)
_WAIT_S = 30
#: For each page: its links with their targets, its ids, and pictures that failed to load.
_LOOK = """
const all = (what) => [...document.querySelectorAll(what)];
return {
    title: document.title,
    links: all("a[href]").map((a) => a.href),
    ids: all("[id]").map((one) => one.id),
    blank: all("img").filter((one) => !one.complete || !one.naturalWidth).map((one) => one.src),
    wide: document.documentElement.scrollWidth - window.innerWidth,
};
"""
#: The smallest contrast of a text and its background by WCAG, and that text.
_CONTRAST = """
const channel = (value) => {
    value /= 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};
const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
const light = (colour) => {
    const [r, g, b] = parts(colour).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
        const colour = getComputedStyle(one).backgroundColor;
        const alpha = parts(colour)[3];
        if (alpha === undefined || alpha > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
};
let least = [21, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (["SCRIPT", "STYLE"].includes(element.tagName) || element.closest("svg")) continue;
    const ends = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(...ends) + 0.05) / (Math.min(...ends) + 0.05);
    if (ratio < least[0]) least = [ratio, element.className + ": " + node.data.trim()];
}
return [least[0], least[1], light(behind(document.querySelector("article")))];
"""


def pages() -> list[str]:
    """The pages of docs/, by their paths in the site."""
    found = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    return sorted(str(path.with_suffix(".html")) for path in found)


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    # Chromium needs --no-sandbox as root; /dev/shm is small in containers
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    SHOTS.mkdir(parents=True, exist_ok=True)
    yield driver
    driver.quit()


def visit(browser: webdriver.Chrome, page: str, size: tuple[int, int] = WIDE) -> Any:
    """Open a page and return its contents. Fails if the browser reports an error."""
    screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get((SITE / page).as_uri())
    wrong = wrongs(browser)
    assert not wrong, f"{page}: {wrong}"
    return browser.execute_script(_LOOK)


def wrongs(browser: webdriver.Chrome) -> list[str]:
    """Return the errors that the browser has reported since the last call."""
    told = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    # a browser requests an icon from every server, and this site has none
    return [one for one in told if "/favicon.ico" not in one]


def prefer(browser: webdriver.Chrome, scheme: str) -> None:
    """Emulate a system with a ``light`` or ``dark`` desktop."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def until(browser: webdriver.Chrome, condition: Any) -> Any:
    """Wait until ``condition`` returns a true value of the browser. Return the value."""
    return WebDriverWait(browser, _WAIT_S).until(condition)


def test_every_link_leads_to_a_page_and_a_place_in_it(browser: webdriver.Chrome) -> None:
    looks = {page: visit(browser, page) for page in [*pages(), "genindex.html", "search.html"]}
    ids = {page: set(look["ids"]) for page, look in looks.items()}
    linked = set()
    for page, look in looks.items():
        assert look["title"], page
        assert not look["blank"], page
        for link in look["links"]:
            target = urlsplit(link)
            if target.scheme != "file":
                assert target.scheme == "https", f"{page}: {link}"
                continue
            path = Path(unquote(target.path))
            assert path.is_file(), f"{page}: {link}"
            name = str(path.relative_to(SITE))
            if name in ids and target.fragment:
                assert unquote(target.fragment) in ids[name], f"{page}: {link}"
            if name != page:
                linked.add(name)
    assert set(pages()) <= linked, "no other page links to a page"


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site without logging."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(SITE))

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def served() -> Iterator[str]:
    """Serve the site. Return the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def search(browser: webdriver.Chrome, word: str, page: str) -> None:
    """Type a word into the search field, and open that page from the results."""
    browser.find_element(By.CSS_SELECTOR, ".sidebar-search").send_keys(word, Keys.ENTER)
    result = f'#search-results li a[href^="{page}"]'
    found = until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, result))
    found[0].click()
    until(browser, lambda one: urlsplit(one.current_url).path.endswith(page))
    shown = browser.find_element(By.CSS_SELECTOR, "article").text
    assert word in shown


def test_the_search_finds_what_is_typed(browser: webdriver.Chrome, served: str) -> None:
    visit(browser, "index.html")
    search(browser, "sched_setattr", "tutorial.html")
    # pages from files cannot read each other: results lack excerpts, and the browser reports errors
    browser.get_log("browser")
    browser.get(f"{served}/index.html")
    search(browser, "sched_setattr", "tutorial.html")
    browser.back()
    excerpt = until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "#search-results p"))
    assert excerpt[0].text
    browser.save_screenshot(str(SHOTS / "search.png"))
    assert not wrongs(browser)


@pytest.mark.parametrize("size", [WIDE, NARROW, (320, 640)], ids=lambda size: str(size[0]))
def test_no_page_is_wider_than_the_screen(browser: webdriver.Chrome, size: tuple[int, int]) -> None:
    wide = {page: look["wide"] for page in pages() if (look := visit(browser, page, size))}
    assert {page: more for page, more in wide.items() if more > 0} == {}


def test_the_menu_of_a_narrow_screen_opens(browser: webdriver.Chrome) -> None:
    visit(browser, "tutorial.html", NARROW)
    browser.save_screenshot(str(SHOTS / "narrow.png"))
    entry = browser.find_element(By.CSS_SELECTOR, '.sidebar-tree a[href="why.html"]')
    assert entry.rect["x"] < 0, "the menu is visible before the button was pressed"
    browser.find_element(By.CSS_SELECTOR, ".mobile-header .nav-overlay-icon").click()
    until(browser, lambda _one: entry.rect["x"] >= 0)
    browser.save_screenshot(str(SHOTS / "menu.png"))
    entry.click()
    until(browser, lambda one: one.current_url.endswith("/why.html"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(browser: webdriver.Chrome, scheme: str) -> None:
    prefer(browser, scheme)
    try:
        for page in ("index", "tutorial", "why", "ci", "reference", "comparison"):
            visit(browser, f"{page}.html")
            ratio, text, paper = browser.execute_script(_CONTRAST)
            assert (paper < 0.1) == (scheme == "dark"), page
            assert ratio >= 4.5, f"{page}: {text}"  # the limit of WCAG level AA
            browser.save_screenshot(str(SHOTS / f"{scheme}-{page}.png"))
    finally:
        prefer(browser, "")


def test_the_button_makes_a_light_page_dark(browser: webdriver.Chrome) -> None:
    prefer(browser, "light")
    visit(browser, "index.html")
    button = browser.find_element(By.CSS_SELECTOR, ".content-icon-container .theme-toggle")
    try:
        until(browser, lambda one: button.click() or one.execute_script(_CONTRAST)[2] < 0.1)
    finally:
        browser.execute_script("localStorage.clear()")
        prefer(browser, "")
