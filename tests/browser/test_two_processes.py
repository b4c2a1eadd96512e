"""Two processes behind nginx: people are spread over both, stay there, and go on when one process is killed."""

import os
import signal
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.painted import settle
from tests.browser.test_faults import goes_on
from tests.proxy.proxy import Proxy, behind_proxy

MOST_PEOPLE = 12  # until both processes have somebody; that all go to one happens once in two thousand runs


def test_people_of_a_killed_process_go_on_in_the_other(window: Callable[..., Page]) -> None:
    with behind_proxy() as proxy:
        people = people_in_both(proxy, window)
        for page in people.values():
            page.goto(f"{proxy.url}/heads?text=a+dog&layer=2&head=5", wait_until="commit")
        for page in people.values():
            settle(page)
            page.get_by_role("gridcell", name="Layer 3, head 4,").click()
            settle(page)
        first, second = people
        with people[first].expect_websocket():
            os.kill(first, signal.SIGKILL)
        for page in people.values():
            page.locator("[data-testid=stApp][data-test-connection-state=CONNECTED]").wait_for()
            settle(page)
            expect(page.get_by_role("heading", name="Layer 3, head 4")).to_be_visible()
            expect(page.get_by_label("Text", exact=True)).to_have_value("a dog")
            goes_on(page, "Layer 0, head 1", "a dog")
            assert proxy.process_of(person(page)).pid == second
        assert [p.tracebacks() for p in proxy.processes] == [[], []]


def people_in_both(proxy: Proxy, window: Callable[..., Page]) -> dict[int, Page]:
    """A page of somebody in each process, by the process's id; nothing is open in it yet."""
    people: dict[int, Page] = {}
    for _ in range(MOST_PEOPLE):
        page = window()
        for _ in range(2):  # the first brings the cookie; nginx writes it down before it answers the second
            assert page.request.get(proxy.url).ok
        people.setdefault(proxy.process_of(person(page)).pid, page)
        if len(people) == len(proxy.processes):
            return people
    raise AssertionError(f"{MOST_PEOPLE} people and all in one process")


def person(page: Page) -> str:
    """Who nginx takes the page's person for."""
    return next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "attnviz")
