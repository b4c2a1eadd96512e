"""Codes of mistakes in addresses: none names its mistake, and addresses with ids show what they showed."""

import pytest

from attnviz.session.pages import PAGES
from attnviz.session.pages.mistakes import CODES, MISTAKES
from attnviz.session.settings import Settings


def test_codes_are_unique_and_say_nothing():
    assert len(set(CODES.values())) == len(MISTAKES) == len(CODES)
    assert all(len(code) == 5 and int(code, 16) >= 0 for code in CODES.values())
    assert CODES["tiled_kv_heads"] == "88590" and CODES["scale_by_d_model"] != "scale", "the same in each version"


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("hunt", ["auto", "0", "1"])
def test_a_link_opens_the_mistake_it_was_made_of_and_does_not_name_it(name, hunt):
    link = Settings(mistake=name, hunt=hunt, head=2).to_link()
    assert name not in str(link) and ("hunt" in link) == (hunt != "auto")
    again, notices = Settings.from_link(link, PAGES["mistakes"])
    assert (again.mistake, again.hunt, again.head) == (name, hunt, 2) and not notices


@pytest.mark.parametrize(("link", "hunts"), [
    ({"mistake": "rope_on_values"}, False), ({"mistake": "rope_on_values", "hunt": "1"}, True),
    ({"mistake": "rope_on_values", "hunt": "0"}, False), ({"mistake": "rope_on_values", "model": "mqa"}, False),
])  # fmt: skip
def test_a_link_with_an_id_shows_titles_and_repairs_as_it_did(link, hunts):
    settings, notices = Settings.from_link(link, PAGES["mistakes"])
    assert settings.mistake == "rope_on_values" and settings.hunts == hunts and not notices


def test_where_nobody_has_chosen_the_line_is_to_be_found():
    assert Settings().hunts and Settings.from_link({"model": "mqa"})[0].hunts
