"""Margins of charts: room for names, numbers, titles and legends; test_cost_page.py sees that they are enough."""

import pytest

from attnviz.figures.margins import with_room
from attnviz.figures.theme import base_figure


def bars(names, **layout):
    chart = base_figure(217, **layout)
    chart.add_bar(orientation="h", x=[2, 3, 5][: len(names)], y=names)
    return chart


def room(chart):
    return with_room(chart).layout["margin"]


def test_names_take_the_room_of_the_longest_without_its_markup():
    assert room(bars(["MHA", "GQA-4"])) == room(bars(["<b>GQA-4</b>"]))
    assert room(bars(["MHA"]))["l"] < room(bars(["MHA", "as it is"]))["l"]
    assert room(bars(["ill"]))["l"] < room(bars(["MHA"]))["l"] < room(bars(["注意力"]))["l"]
    assert room(bars(["\u2068MHA\u2069"])) == room(bars(["MHA"]))  # isolates, as around tokens, take none


def test_numbers_take_the_room_of_three_digits_and_given_labels_their_own():
    assert room(bars([7, 11]))["l"] == room(bars(["100"]))["l"]
    assert room(bars([7, 11], yaxis={"tickvals": [7], "ticktext": ["seven"]}))["l"] == room(bars(["seven"]))["l"]


@pytest.mark.parametrize(("axis", "side"), [("xaxis", "b"), ("yaxis", "l")])
def test_a_title_takes_28_pixels(axis, side):
    assert room(bars(["MHA"], **{axis: {"title": "bytes"}}))[side] == room(bars(["MHA"]))[side] + 28


def test_labels_above_and_a_legend_take_room_at_the_top():
    assert room(bars(["MHA"], showlegend=False))["t"] == 8
    assert room(bars(["MHA"], xaxis={"side": "top"}))["t"] == 31
    legend = {"legend": {"yanchor": "bottom"}}
    assert room(bars(["MHA"], **legend))["t"] == 41
    assert room(bars(["MHA"], showlegend=False, **legend))["t"] == 8


@pytest.mark.parametrize("hidden", [{"visible": False}, {"showticklabels": False}, {"automargin": False}])
def test_an_axis_without_labels_takes_none(hidden):
    assert room(bars(["MHA"], xaxis=hidden, yaxis=hidden)) == base_figure(217).layout["margin"]


def test_wider_and_final_margins_stay_and_the_chart_is_not_changed():
    chart = bars(["MHA"], margin={"l": 97, "r": 19})
    assert room(chart) == {"l": 97, "r": 19, "t": 8, "b": 33}
    assert chart.layout["margin"] == {"l": 97, "r": 19, "t": 8, "b": 8}
    final = bars(["MHA"], margin={"autoexpand": False})
    assert with_room(final) is final
