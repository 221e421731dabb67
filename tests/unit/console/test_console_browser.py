"""The console's pages in a real headless Chromium, over constructed jobs: no broker, no Spark.

Each page with data, empty, with an error and without brokers; hostile texts; keys, a phone, both themes with their
contrast; 10,000 partitions and 100,000 milestones.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.console.follower import JobFollower
from cutwater.core.generations.holds import make_hold, make_release
from support.console import screenshots
from support.console.sample_job import (
    AWAY,
    HELD,
    HOSTILE,
    NOW_MS,
    PLAIN,
    TOKENS,
    ConstructedOperator,
    ConstructedReader,
    ConstructedView,
    alert,
    follower,
    milestones,
    new_epoch,
    served,
    with_roles,
)
from support.pages import ROOT
from support.protocol_samples import GENERATION, OTHER
from tiers import CHROMIUMS

pytestmark = pytest.mark.needs("browser")

PAGES = {
    "overview": "Active alerts",
    "milestones": "Latency by step",
    "shards": "The hottest",
    "keys": "The largest keys of the state",
    "generations": "twice the partitions",
    "regions": "From us",
    "recovery": "Recovery trail",
    "explore?key=JFK": "All windows",
    "rejected": "dead letters by reason",
}
"""By page what it shows of the constructed job."""
EMPTY = {
    "overview": "No milestone was written yet",
    "milestones": "No milestone was read yet",
    "shards": "No milestone of this generation",
    "keys": "The view has no rows yet",
    "generations": "No generation has written",
    "regions": "Nothing is copied",
    "recovery": "No start of a service",
    "explore?key=JFK": "has no windows",
    "rejected": "Every event could be used",
}
FROM_BROKERS = ["generations", "regions", "recovery", "rejected"]
TIMEOUT_MS = 30_000
AT_ONCE_S = 2.0
"""For an interaction; the console's own aim is 200 ms, on a machine that does nothing else."""
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
FLAGS += " --disable-component-update --disable-sync"

LOW_CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const linear = one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(one => linear(one / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0.5) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(one => one.nodeType === 3 && one.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(':disabled, .skip, option')) continue;
    const style = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color);
    const box = element instanceof SVGElement && element.closest('.stage')?.querySelector('rect');
    const [a, b] = [light(ink), light(box ? parse(getComputedStyle(box).fill) : behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${element.tagName}.${element.className}`;
    if (ratio < 4.5) found.push(`${name}: ${ratio.toFixed(2)} ${element.textContent.slice(0, 40)}`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, CHROMIUMS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        yield browser
        browser.close()


@dataclass
class Shown:
    """One tab with the console of one job."""

    page: Any
    url: str
    reader: ConstructedReader
    view: ConstructedView
    problems: list[str] = field(default_factory=list)
    """What the browser complained about, refused scripts and styles among them."""

    def open(self, page: str) -> None:
        self.page.evaluate("hash => { location.hash = hash }", f"#/flights/{page}")
        self.page.wait_for_function(
            "page => location.hash.endsWith(page) && document.querySelector('#page')"
            " && document.querySelector(`#nav-${page.split('?')[0]}`)?.ariaCurrent === 'page'"
            " && !document.querySelector('.loading')",
            arg=page,
            timeout=TIMEOUT_MS,
        )

    def wait(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=TIMEOUT_MS)

    @property
    def text(self) -> str:
        return str(self.page.inner_text("main"))

    def seconds(self, act: str, until: str) -> float:
        """How long it takes from an act in the page until a condition holds, in the page's own time."""
        begun = time.monotonic()
        self.page.evaluate(act)
        self.page.wait_for_function(f"() => {until}", timeout=TIMEOUT_MS, polling=10)
        return time.monotonic() - begun


@contextmanager
def tab(
    chromium: Any,
    reader: ConstructedReader | None = None,
    view: ConstructedView | None = None,
    settings: Settings | None = None,
    running: list[Any] | None = None,
    operator: ConstructedOperator | None = None,
    **context: Any,
) -> Iterator[Shown]:
    """A console and a tab that has opened it; the browser may complain about nothing but refused answers."""
    reader = reader or ConstructedReader(alerts=[alert()])
    view = view or ConstructedView(reader.many, reader.shards, empty=reader.empty)
    made: JobFollower = follower(reader, view, tick_s=0.2)
    with served(made, settings, running, operator) as console:
        opened = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        page = opened.new_page()
        shown = Shown(page, console.url, reader, view)
        page.on("pageerror", lambda error: shown.problems.append(str(error)))
        page.on("console", lambda one: shown.problems.append(one.text) if one.type == "error" else None)
        page.goto(console.url)
        try:
            yield shown
        finally:
            opened.close()
            made.stop()
    refused = re.compile(
        r"Failed to load resource: (the server responded with a status of (401|403|503|400)|net::ERR_)"
    )
    assert [one for one in shown.problems if not refused.match(one)] == []


@pytest.fixture(scope="module")
def busy(chromium: Any) -> Iterator[Shown]:
    """A job with something on every page."""
    with tab(chromium) as shown:
        shown.wait("live")
        yield shown


@pytest.mark.parametrize("page", PAGES)
def test_each_page_shows_the_job(busy: Shown, page: str) -> None:
    busy.open(page)
    busy.wait(PAGES[page])
    assert busy.page.locator(".error").count() == 0
    assert busy.page.locator("nav a[aria-current=page]").count() == 1


@pytest.mark.parametrize("page", PAGES)
def test_a_text_of_others_is_never_html(busy: Shown, page: str) -> None:
    busy.open(page)
    busy.wait(PAGES[page])
    assert busy.page.locator("img").count() == 0
    assert busy.page.title().endswith("Cutwater")
    assert "\u202e" not in busy.text
    if page in ("overview", "keys", "generations", "recovery", "rejected"):
        assert HOSTILE.replace("\u202e", "\\u202e") in busy.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_texts_have_the_contrast_of_wcag_aa(busy: Shown, page: str, scheme: str) -> None:
    busy.page.emulate_media(color_scheme=scheme)
    busy.open(page)
    busy.wait(PAGES[page])
    assert busy.page.evaluate(LOW_CONTRAST) == []


def test_every_control_has_a_name_and_every_page_a_heading(busy: Shown) -> None:
    for page, text in PAGES.items():
        busy.open(page)
        busy.wait(text)
        unnamed = """() => [...document.querySelectorAll('button, select, input, a, canvas, [role=img]')]
          .filter(one => one.checkVisibility() && !one.parentElement.closest('[role=img]'))
          .filter(one => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
          .map(one => one.outerHTML.slice(0, 80))"""
        assert busy.page.evaluate(unnamed) == []
        assert busy.page.locator("main h2").count() == 1


def test_a_phone_needs_no_sideways_scrolling(chromium: Any) -> None:
    """Wide tables scroll in their own region."""
    with tab(chromium, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True) as shown:
        shown.wait("live")
        for page, text in PAGES.items():
            shown.open(page)
            shown.wait(text)
            wide = shown.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, page


def test_keys_open_pages_and_can_be_switched_off(busy: Shown) -> None:
    page = busy.page
    busy.open("overview")
    page.locator("#main").focus()
    for number, name in enumerate(PAGES, 1):
        page.keyboard.press(str(number))
        page.wait_for_function("name => location.hash.includes(name)", arg=name.split("?")[0])
    page.keyboard.press("?")
    assert page.locator("#help-dialog").get_attribute("open") is not None
    page.locator("#shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert "rejected" in page.url
    page.evaluate("localStorage.clear()")


def test_a_digit_in_a_field_is_a_digit(busy: Shown) -> None:
    busy.open("explore?key=JFK")
    busy.wait("All windows")
    busy.page.locator("#explore-key").fill("")
    busy.page.locator("#explore-key").press_sequentially("12")
    assert busy.page.locator("#explore-key").input_value() == "12"
    assert "explore" in busy.page.url


def test_the_skip_link_leads_to_the_page(busy: Shown) -> None:
    busy.open("regions")
    busy.page.locator(".skip").focus()
    busy.page.keyboard.press("Enter")
    assert busy.page.evaluate("document.activeElement.id") == "main"
    assert "regions" in busy.page.url


def test_the_focus_stays_on_the_link_that_was_followed(busy: Shown) -> None:
    busy.open("overview")
    busy.page.locator("#nav-regions").focus()
    busy.page.keyboard.press("Enter")
    busy.wait("From us")
    assert busy.page.evaluate("document.activeElement.id") == "nav-regions"
    busy.page.keyboard.press("Tab")
    assert busy.page.evaluate("document.activeElement.id") == "nav-recovery"


def test_the_theme_is_chosen_and_kept(chromium: Any) -> None:
    with tab(chromium, color_scheme="light") as shown:
        shown.wait("live")
        paper = "getComputedStyle(document.body).backgroundColor"
        light = shown.page.evaluate(paper)
        for _ in range(2):
            shown.page.locator("#theme").click()
        assert shown.page.locator("#theme").inner_text() == "Theme: dark"
        dark = shown.page.evaluate(paper)
        shown.page.reload()
        shown.wait("live")
        assert (shown.page.evaluate(paper), light) == (dark, "rgb(255, 255, 255)")


@pytest.mark.parametrize("page", EMPTY)
def test_an_empty_page_says_why(chromium: Any, page: str) -> None:
    with tab(chromium, ConstructedReader(empty=True)) as shown:
        shown.open(page)
        shown.wait(EMPTY[page])
        assert shown.page.locator(".empty").count() >= 1
        assert "NaN" not in shown.text
        assert "undefined" not in shown.text


def test_without_brokers_pages_say_so_and_come_back(chromium: Any) -> None:
    """The banner with the reason, the last picture, an error on pages that must read, and a way to try again."""
    with tab(chromium) as shown:
        shown.open("overview")
        shown.wait("Active alerts")
        shown.reader.away = True
        shown.wait("The brokers cannot be read.")
        assert AWAY in shown.page.locator("#banner").inner_text()
        assert f"{GENERATION}:400" in shown.text
        for page in FROM_BROKERS:
            shown.open(page)
            shown.page.locator(".error").first.wait_for()
            assert AWAY in shown.text
        shown.reader.away = False
        shown.page.locator("#banner").wait_for(state="hidden", timeout=TIMEOUT_MS)
        with suppress(Exception):  # the page may have tried again by itself
            shown.page.locator("#retry").click(timeout=2_000)
        shown.wait("dead letters by reason")


def test_brokers_that_never_answered(chromium: Any) -> None:
    with tab(chromium, ConstructedReader(away=True)) as shown:
        shown.wait("The brokers cannot be read.")
        assert shown.page.locator("#status").inner_text() == "broker away"
        shown.page.locator(".error").wait_for()
        shown.reader.away = False
        shown.wait("Active alerts")


def test_a_rehydrator_that_is_away(chromium: Any) -> None:
    with tab(chromium, view=ConstructedView(away=True)) as shown:
        shown.open("overview")
        told = shown.page.get_by_text("the rehydrator does not answer").first
        told.wait_for(state="attached")  # the picture's own title
        for page in ("keys", "explore?key=JFK"):
            shown.open(page)
            shown.page.locator(".error").wait_for()
            assert "the rehydrator does not answer" in shown.text


def test_without_a_stack_the_page_says_how_to_start_one(chromium: Any) -> None:
    with tab(chromium, running=[]) as shown:
        shown.wait("No stack runs on this data folder")
        assert shown.page.locator("#status").inner_text() == "no job"


def test_a_console_that_ended_is_noticed(chromium: Any) -> None:
    """And the page goes on by itself when it answers again."""
    made = follower(ConstructedReader(), tick_s=0.2)
    with served(made) as console:
        page = chromium.new_page()
        page.goto(console.url)
        page.get_by_text("live").first.wait_for()
    page.get_by_text("The console does not answer").first.wait_for(timeout=TIMEOUT_MS)
    page.close()
    made.stop()


def test_the_token_is_asked_for_and_kept_in_the_tab(chromium: Any) -> None:
    token = "a-token-of-the-test"
    with tab(chromium, settings=Settings(api_token=token)) as shown:  # type: ignore[arg-type]
        dialog = shown.page.locator("#token-dialog")
        dialog.wait_for()
        assert "flights" not in shown.page.content()
        for given in ("wrong", token):
            shown.page.locator("#token").fill(given)
            shown.page.locator("#token-form button").click()
            if given == "wrong":
                shown.page.get_by_text("The token was refused.").wait_for()
        shown.wait("Active alerts")
        shown.page.reload()
        shown.wait("Active alerts")
        assert token not in shown.page.content()


def test_a_new_milestone_is_shown_without_a_reload(chromium: Any) -> None:
    """On the overview by the stream, on the timeline after it; the focus stays where it was."""
    with tab(chromium) as shown:
        shown.wait(f"{GENERATION}:400")
        last = list(milestones(400, 12))[-1]
        shown.reader.coming = new_epoch(last)
        shown.wait(f"{GENERATION}:401")
        shown.open("milestones")
        shown.page.locator("#median").focus()
        shown.reader.coming = new_epoch(new_milestone(last))
        shown.wait(f"{GENERATION}:402")
        assert shown.page.evaluate("document.activeElement.id") == "median"


def new_milestone(last: Any) -> Any:
    from dataclasses import replace

    return replace(last, sequence=last.sequence + 1, epoch=last.epoch + 1, committed_ms=last.committed_ms + 5_000)


def test_a_key_is_compared_with_an_answer_before(chromium: Any) -> None:
    with tab(chromium) as shown:
        shown.open("explore?key=JFK")
        shown.wait("All windows")
        shown.view.newest += 1
        shown.page.locator("#explore-form button").click()
        shown.page.locator("#against option").nth(1).wait_for(state="attached")
        shown.page.locator("#against").select_option(index=1)
        shown.wait("48 windows differ")
        assert shown.page.locator("#windows canvas").count() == 1


def test_a_key_at_an_older_milestone(chromium: Any) -> None:
    """Chosen by its token, and compared with another one that was never shown."""
    with tab(chromium) as shown:
        shown.open("explore?key=JFK")
        shown.wait("All windows")
        shown.page.locator("#explore-at").fill(f"{GENERATION}:41")
        shown.page.locator("#explore-form button").click()
        shown.wait("Committed ago")
        shown.page.locator("#other").fill(f"{GENERATION}:8")
        shown.page.locator("#compare-form button").click()
        shown.wait(f"48 windows differ from {GENERATION}:8")
        shown.page.locator("#other").fill("1970-01-01")
        shown.page.locator("#compare-form button").click()
        shown.wait("This cannot be shown")
        assert shown.page.locator("#explore-key").input_value() == "JFK"


def test_measures_are_chosen_one_by_one(busy: Shown) -> None:
    """Though the answer is the same, the chart is another one."""
    busy.open("explore?key=JFK")
    busy.wait("All windows")
    label = "document.querySelector('#windows .chart').ariaLabel.startsWith('movements of key')"
    assert not busy.page.evaluate(label)
    busy.page.locator("#measure-1").click()
    busy.page.wait_for_function(f"() => {label}")
    assert busy.page.locator("#measure-1").get_attribute("aria-pressed") == "false"


def test_ten_thousand_partitions(chromium: Any) -> None:
    """The heat map is there, a band opens at once, and all of it works by keys."""
    with tab(chromium, ConstructedReader(450, 10_000, shards=16_384)) as shown:
        shown.wait("live")
        shown.open("shards")
        shown.page.locator("#heat").wait_for(timeout=TIMEOUT_MS)
        shown.wait("partitions 0 to 9,999 of 10,000")
        shown.page.locator("#heat").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
            shown.page.keyboard.press(key)
        assert re.match(r"partitions 40 to 59, 20\d\d-.*: at most [\d,]+ row", shown.page.inner_text(".heat-said"))
        click = "document.querySelector('#heat').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))"
        took = shown.seconds(click, "document.querySelector('#map h3')?.textContent.includes('40 to 59')")
        assert took < AT_ONCE_S
        back = "document.querySelector('#heat').dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))"
        assert (
            shown.seconds(back, "document.querySelector('#map h3')?.textContent.includes('0 to 9,999')")
            < AT_ONCE_S
        )
        state = "document.querySelector('#of-state').click()"
        until = "document.querySelector('#map h3')?.textContent.includes('of 16,384')"
        assert shown.seconds(state, until) < AT_ONCE_S
        assert painted(shown)


def painted(shown: Shown) -> bool:
    """Has the heat map several colours?"""
    colours = """() => {
      const canvas = document.querySelector('#heat');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      const found = new Set();
      for (let at = 0; at < data.length; at += 4 * 97) found.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
      return found.size;
    }"""
    return int(shown.page.evaluate(colours)) > 3


def test_a_hundred_thousand_milestones(chromium: Any) -> None:
    """Aggregated by the server: the page gets 300 columns, and looks closer at once."""
    with tab(chromium, ConstructedReader(100_000, 4)) as shown:
        live = "() => document.querySelector('#status').textContent === 'live'"
        shown.page.wait_for_function(live, timeout=120_000)
        shown.open("milestones")
        shown.wait("100,000 of 100,000 milestones")
        assert shown.page.locator("#latency canvas").count() == 1
        took = shown.seconds(
            "document.querySelector('#max').click()",
            "document.querySelector('#max').ariaPressed === 'true'",
        )
        assert took < AT_ONCE_S
        closer = "location.hash = '#/flights/milestones?from=1767222000000&to=1767225600000'"
        assert (
            shown.seconds(closer, "document.querySelector('#page').textContent.includes('721 of 100,000')")
            < AT_ONCE_S
        )
        assert shown.page.locator("table:not(.u-legend)").count() == 2, "the chart has a table for its legend"


def test_many_tabs_are_bounded(chromium: Any) -> None:
    """More live streams than allowed are refused, and those there are go on."""
    import httpx

    with tab(chromium) as shown:
        shown.wait("live")
        ended = threading.Event()
        refused: list[int] = []

        def stream() -> None:
            with httpx.stream("GET", f"{shown.url}api/jobs/flights/events") as answer:
                refused.append(answer.status_code)
                for _ in answer.iter_lines():
                    if ended.is_set() or answer.status_code != 200:
                        return

        threads = [threading.Thread(target=stream, daemon=True) for _ in range(40)]
        for one in threads:
            one.start()
        shown.page.wait_for_timeout(3_000)
        ended.set()
        assert refused.count(503) >= 1
        assert shown.page.locator("#status").inner_text() == "live"


def enter(shown: Shown, role: str) -> None:
    """Use the token of a role."""
    shown.page.locator("#token").fill(TOKENS[role])
    shown.page.locator("#token-form button").click()
    shown.page.get_by_text(f"my-{role} ({role})").wait_for(timeout=TIMEOUT_MS)


ACTIONS_OF_PAGES = {
    "generations": ("Promote", "Hold", "Release", "Give up"),
    "regions": ("Let the mirror continue",),
    "recovery": ("Take a snapshot",),
}


@pytest.mark.parametrize(
    ("role", "may"),
    [("viewer", set()), ("operator", {"Hold", "Let the mirror continue", "Take a snapshot"}), ("owner", None)],
)
def test_a_page_has_the_buttons_of_the_role(chromium: Any, role: str, may: set[str] | None) -> None:
    with tab(chromium, settings=with_roles()) as shown:
        enter(shown, role)
        for page, labels in ACTIONS_OF_PAGES.items():
            shown.open(page)
            shown.wait(PAGES[page])
            buttons = shown.page.locator("#page .actions button").all_inner_texts()
            for label in labels:
                found = [one for one in buttons if one.startswith(label)]
                assert bool(found) == (may is None or label in may), page
            assert shown.page.evaluate(LOW_CONTRAST) == []


def test_an_action_needs_the_typed_name_and_is_told(chromium: Any) -> None:
    """The button waits for the whole name; what came of it is said, and the dialog is closed."""
    operator = ConstructedOperator()
    with tab(chromium, settings=with_roles(), operator=operator) as shown:
        enter(shown, "owner")
        shown.open("generations")
        shown.page.get_by_text(f"Give up {OTHER}").click()
        submit, name = shown.page.locator("#action-submit"), shown.page.locator("#action-name")
        assert shown.page.evaluate("document.activeElement.id") == "action-name"
        assert shown.page.evaluate(LOW_CONTRAST) == []
        for typed in ("", str(OTHER)[:-1], str(OTHER).upper()):
            name.fill(typed)
            assert submit.is_disabled()
        shown.page.locator("#action-reason").fill("the other plan")
        name.fill(str(OTHER))
        shown.page.keyboard.press("Enter")
        shown.page.get_by_text(f"Done: {OTHER} is given up.").wait_for(timeout=TIMEOUT_MS)
        assert not shown.page.locator("#action-dialog").is_visible()
    assert operator.asked == [("drop", OTHER, "the other plan")]
    assert [(one.actor, one.action, one.outcome) for one in operator.written] == [
        ("my-owner", "generation abort", "begun"),
        ("my-owner", "generation abort", "done"),
    ]


@pytest.mark.parametrize("page", ["overview", "milestones", "generations"])
def test_a_held_promotion_is_shown(busy: Shown, page: str) -> None:
    """With who, why and until when; a reason of somebody else is a text."""
    busy.open(page)
    busy.wait("2026-01-01 00:59:40Z")
    assert f"until 2026-01-01 00:59:40Z, by watch: {HOSTILE[:12]}" in busy.text
    assert str(HELD) in busy.text
    assert busy.page.locator("img").count() == 0


def test_a_promotion_is_held_and_released(chromium: Any) -> None:
    """The dialog proposes an hour; a held candidate is not promoted, and its hold is ended by its name."""
    operator = ConstructedOperator()
    with tab(chromium, settings=with_roles(), operator=operator) as shown:
        enter(shown, "owner")
        shown.open("generations")
        held = shown.page.locator(f"[aria-label^='generation {HELD}']")
        assert held.get_by_text(f"Promote {HELD}").count() == 0
        shown.page.locator(f"#act-generation-hold-{OTHER}").click()
        shown.wait("For at most")
        assert shown.page.evaluate(LOW_CONTRAST) == []
        assert shown.page.locator("#action-duration").input_value() == "1h"
        shown.page.locator("#action-duration").fill("30m")
        shown.page.locator("#action-reason").fill("dead letters rise")
        shown.page.locator("#action-name").fill(str(OTHER))
        shown.page.locator("#action-submit").click()
        shown.wait(f"Done: the promotion of {OTHER} is held until 2026-01-01T00:30:00Z.")
        held.get_by_text(f"Release {HELD}").click()
        assert not shown.page.locator("#action-duration").is_visible()
        shown.page.locator("#action-name").fill(str(HELD))
        shown.page.locator("#action-submit").click()
        shown.wait(f"Done: the hold of {HELD} has ended.")
    assert operator.asked == [
        ("hold", OTHER, 1_800_000, "my-owner", "dead letters rise"),
        ("release", HELD, "my-owner", ""),
    ]


def test_a_hold_that_comes_and_goes_is_shown_without_a_reload(chromium: Any) -> None:
    with tab(chromium) as shown:
        shown.wait("Held promotions")
        shown.reader.requests.append(make_hold("flights", OTHER, 60_000, "alice", "wait", NOW_MS))
        shown.wait("by alice: wait")
        shown.reader.requests += [make_release("flights", one, "bob", "", NOW_MS) for one in (OTHER, HELD)]
        shown.page.get_by_text("Held promotions").wait_for(state="detached", timeout=TIMEOUT_MS)
        assert "Active alerts" in shown.text


def test_an_action_that_fails_says_why_and_can_be_given_up(chromium: Any) -> None:
    operator = ConstructedOperator(error="its parent is gone")
    with tab(chromium, settings=with_roles(), operator=operator) as shown:
        enter(shown, "owner")
        shown.open("generations")
        shown.page.get_by_role("button", name=f"Promote {OTHER}").click()
        shown.page.locator("#action-name").fill(str(OTHER))
        shown.page.locator("#action-submit").click()
        shown.page.get_by_text("its parent is gone").wait_for(timeout=TIMEOUT_MS)
        shown.page.locator("#action-cancel").click()
        assert not shown.page.locator("#action-dialog").is_visible()
        shown.page.get_by_role("button", name=f"Promote {OTHER}").click()
        assert shown.page.locator("#action-name").input_value() == ""
        assert shown.page.locator("#action-problem").inner_text() == ""
        shown.page.keyboard.press("Escape")
    assert operator.asked == []


def test_another_token_may_be_entered(chromium: Any) -> None:
    """The console's own token reads; with one of a role the page gets its buttons, without a reload."""
    with tab(chromium, settings=with_roles()) as shown:
        shown.page.locator("#token").fill(PLAIN)
        shown.page.locator("#token-form button").click()
        shown.open("recovery")
        shown.wait("Recovery trail")
        assert shown.page.locator("#page .actions").count() == 0
        shown.page.locator("#use-token").click()
        enter(shown, "operator")
        shown.open("recovery")
        shown.page.get_by_text("Take a snapshot").wait_for(timeout=TIMEOUT_MS)


def test_the_pictures_of_the_docs_can_be_made(tmp_path: Path) -> None:
    """Each is a small PNG; those that are kept in docs/images are on the page.

    In a process of its own: Playwright runs once in each, and the other tests' browser is open.
    """
    command = [sys.executable, "-m", "support.console.screenshots", str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=300)
    names = {f"console-{name}.png" for name in (*screenshots.PICTURES, screenshots.ACTION)}
    assert {path.name for path in tmp_path.iterdir()} == names
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 100_000
    text = (ROOT / "docs/CONSOLE.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs/images").glob("console-*.png"):
        assert path.name in names
        assert f"(images/{path.name})" in text
