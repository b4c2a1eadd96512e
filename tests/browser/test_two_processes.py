"""Two processes behind nginx: users are spread over both, stay there, and continue when one process is killed."""

import os
import signal
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.painted import settle
from tests.browser.test_faults import goes_on
from tests.proxy.proxy import Proxy, behind_proxy

MAX_PEOPLE = 12  # maximal number of users until both processes have one; all go to one in 1 of 2,000 runs


def test_people_of_a_killed_process_go_on_in_the_other(window: Callable[..., Page]) -> None:
    with behind_proxy() as proxy:
        people = people_in_both(proxy, window)
        first, second = people
        page = people[first]
        page.goto(f"{proxy.url}/heads?text=a+dog&layer=2&head=5")
        settle(page)
        page.get_by_role("gridcell", name="Layer 3, head 4,").click()
        settle(page)
        assert proxy.process_of(person(page)).pid == first
        with page.expect_websocket():
            os.kill(first, signal.SIGKILL)
        page.locator("[data-testid=stApp][data-test-connection-state=CONNECTED]").wait_for()
        settle(page)
        expect(page.get_by_role("heading", name="Layer 3, head 4")).to_be_visible()
        expect(page.get_by_label("Text", exact=True)).to_have_value("a dog")
        goes_on(page, "Layer 0, head 1", "a dog")
        assert proxy.process_of(person(page)).pid == second
        other = people[second]
        assert other.request.get(proxy.url).ok and proxy.process_of(person(other)).pid == second
        assert [p.tracebacks() for p in proxy.processes] == [[], []]


def people_in_both(proxy: Proxy, window: Callable[..., Page]) -> dict[int, Page]:
    """Return one user's blank page per process, by process id."""
    people: dict[int, Page] = {}
    for _ in range(MAX_PEOPLE):
        page = window()
        for _ in range(2):  # the first sets the cookie; nginx has logged it before it answers the second
            assert page.request.get(proxy.url).ok
        people.setdefault(proxy.process_of(person(page)).pid, page)
        if len(people) == len(proxy.processes):
            return people
    raise AssertionError(f"{MAX_PEOPLE} people and all in one process")


def person(page: Page) -> str:
    """Return nginx's cookie for the page's user."""
    return next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "attnviz")
