"""A chart of plain dicts equals the figure from the same calls on plotly's own object.

plotly.graph_objects is the reference: every method is called on both, and the JSON sent to the browser is compared.
"""

import copy
import json
import sys

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.config import ModelConfig
from attnviz.cost import comparison, what_if
from attnviz.figures import cost, groups_work, rope, rope_scores
from attnviz.figures.chart import Chart, numbered
from attnviz.figures.margins import with_room
from attnviz.figures.theme import DIVERGING, base_figure
from attnviz.figures.token_maps import add_colourbar, token_map_figure

LAYOUT = {"height": 300, "margin": {"l": 8, "t": 9}, "xaxis": {"gridwidth": 0.5}, "yaxis": {"gridwidth": 0.5}}
X = np.array([2.5, 3.0, 7.0])
MODEL = ModelConfig(n_layers=3, d_model=30, n_heads=6, n_kv_heads=2, head_dim=8, d_ff=41, vocab_size=101)
FREQUENCIES = 1e4 ** (-np.arange(7) / 7)


def sent(figure: go.Figure) -> dict:
    """Return the JSON that the browser gets."""
    return json.loads(plotly.io.to_json(figure, validate=False))


def traces(f):
    f.add_bar(x=X, y=["a", "b", "c"], orientation="h", marker={"color": ["red", "#123456", "rgba(0, 0, 0, 0.5)"]})
    f.add_heatmap(z=np.eye(3, dtype=np.float32), colorscale=DIVERGING, zmin=-1, zmax=1, xaxis="x2", yaxis="y2")
    f.add_scatter(x=X, y=np.array([1, 2, 3]), text=["p", "q", "r"], mode="text", textfont={"size": 11})
    f.add_trace({"type": "scatter", "x": [None], "y": (1,), "hoverinfo": None, "line": {"dash": "dot"}})


def lines_and_bands(f):
    f.add_vline(x=3, line={"dash": "dash", "color": "#7d7d7d"}, layer="below")
    f.add_vrect(x0=1.8, x1=2.2, fillcolor="rgba(128, 128, 128, 0.35)", line={"width": 0}, layer="below")
    f.add_vline(x=np.float64(5.5), line={"width": 6})


def shapes_and_annotations(f):
    f.add_annotation(x=np.log10(3), y=1, yref="paper", yshift=18, yanchor="bottom", showarrow=False, text="<b>3</b>")
    f.add_shape(type="rect", x0=-0.5, x1=2, y0=np.int64(1), y1=2, line={"color": "red", "width": 2})
    f.add_annotation(text="x", x=0.5, xref="x3 domain", yref="y3 domain", font={"size": 11})
    f.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, xref="x2", yref="paper")


def axes(f):
    f.update_xaxes(title="tokens", type="log", dtick=1, range=[0, np.log10(7)])
    f.update_yaxes(autorange="reversed", tickvals=[0, 1], ticktext=["a", "b"], zeroline=False)
    f.update_xaxes(title="tokens in one turn", showgrid=False)


def every_axis_there_is(f):
    f.update_layout(xaxis2={"matches": "x", "overlaying": "x"}, yaxis3={"domain": [0, 0.2], "anchor": "x2"})
    f.update_xaxes(showgrid=False, tickfont={"size": 11})
    f.update_yaxes(title={"text": "pair", "standoff": 4})


def nested(f):
    f.update_layout(margin={"t": 44}, legend={"orientation": "h", "title": "kind"}, hovermode="x unified", title="all")
    f.update_layout(
        margin={"b": 1, "t": 2}, legend={"y": 1.02}, xaxis={"title": {"text": "x"}, "tickfont": {"size": 9}}
    )
    f.update_layout(xaxis={"title": {"font": {"size": 8}}, "tickfont": {"color": "red"}}, yaxis={"domain": [0.54, 1]})


@pytest.mark.parametrize(
    "calls",
    [traces, lines_and_bands, shapes_and_annotations, axes, every_axis_there_is, nested],
)
@pytest.mark.parametrize("way", [Chart.figure, Chart.sent])
def test_every_method_does_what_plotlys_own_does(calls, way):
    ours, plotlys = Chart(**LAYOUT), go.Figure(layout=LAYOUT)
    calls(ours)
    calls(plotlys)
    assert sent(way(ours)) == sent(plotlys)


def test_the_first_axis_has_no_number():
    for n in (1, 2, 3):
        plotlys = go.Figure(go.Scatter(xaxis=f"x{n}"), {f"yaxis{n}": {"dtick": 1}})
        ours = Chart(**{numbered("yaxis", n): {"dtick": 1}})
        ours.add_scatter(xaxis=numbered("x", n))
        assert sent(ours.sent()) == sent(plotlys)


def test_arrays_are_kept_as_they_are():
    chart = base_figure(200)
    chart.add_scatter(x=X, y=X, marker={"size": X})
    assert chart.data[0]["x"] is X and chart.data[0]["marker"]["size"] is X
    assert sent(chart.sent())["data"][0]["x"]["dtype"] == "f8"  # bytes, not a list of numbers


@pytest.mark.parametrize(
    "array",
    [
        np.arange(15, dtype=np.float32).reshape(3, 5).T, np.arange(7.0)[::2], np.array([np.nan, 1.0]), np.empty((0, 3)),
        np.arange(7), np.array([2**40, 1]), np.array([1, 2], np.uint8), np.array([0.5, 2], np.float16),
        np.array([True, False]), np.array(["a", "b"]),
    ],
)  # fmt: skip
def test_arrays_are_sent_as_plotly_sends_them(array):
    chart = Chart()
    chart.add_heatmap(z=array)
    assert sent(chart.sent())["data"] == sent(go.Figure(chart.data, skip_invalid=True).update(data=chart.data))["data"]


def test_what_is_passed_in_is_not_changed():
    legend, axis = {"orientation": "h", "title": "kind"}, {"showgrid": False, "tickfont": {"size": 11}}
    before = copy.deepcopy((legend, axis))
    chart = Chart(legend=legend, xaxis=axis, yaxis=axis)
    chart.update_layout(legend={"y": 1}, xaxis={"tickfont": {"color": "red"}})
    chart.update_yaxes(dtick=1)
    assert (legend, axis) == before
    assert chart.layout["yaxis"] == {"showgrid": False, "tickfont": {"size": 11}, "dtick": 1}


@pytest.mark.parametrize("wrong", [{"heigth": 3}, {"xaxis": {"type": "logarithmic"}}, {"shapes": [{"x": 0}]}])
def test_plotly_checks_a_chart_before_a_test_sees_it(wrong):
    with pytest.raises(ValueError):
        Chart(**wrong).figure()


def drawings() -> dict:
    models, head = comparison(MODEL), rope_scores.Head(0, 1, 0, 2, "random weights")
    scores = np.linspace(-3, 3, 49).reshape(7, 7)
    return {
        "bars and marks": rope.wavelengths(FREQUENCIES, 24, 256, 1e4),
        "two maps": rope.rotation_maps(FREQUENCIES, 20, 5, 1e4),
        "stacks": cost.cache(models, MODEL, None, 70, 2),
        "dotted": cost.totals(what_if(MODEL), 131_072),
        "shares": groups_work.work(models, MODEL, 23),
        "tokens": rope_scores.score_map(scores, np.tri(7, dtype=bool), list("abcdefg"), 3.0, "title", "note"),
        "by distance": rope_scores.by_distance(*np.arange(20.0).reshape(4, 5), 15, head),
    }


@pytest.mark.parametrize("name", drawings())
def test_a_page_sends_what_plotly_would_have_made_of_it(name):
    drawing = drawings()[name]
    assert sent(drawing.chart.sent()) == sent(drawing.figure)
    assert sent(drawing.chart.sent()) == sent(drawing.figure)  # unchanged by the first call


def test_streamlit_sends_it_with_room_for_its_labels():
    def page():
        import numpy as np

        from attnviz.figures import rope
        from attnviz.ui import charts

        charts.show(rope.wavelengths(1e4 ** (-np.arange(7) / 7), 24, 256, 1e4), "waves")

    app = AppTest.from_function(page).run()
    assert not app.exception
    (chart,) = app.get("plotly_chart")
    assert json.loads(chart.proto.spec) == sent(with_room(drawings()["bars and marks"].chart).figure())


def test_a_lower_chart_has_labels_that_do_not_meet_and_a_colour_bar_of_the_same_pixels() -> None:
    """A chart of 700 pixels is drawn at this height to fill a screen of 720."""
    labels = [f"token{i}" for i in range(31)]
    chart = token_map_figure(labels, 700, 64)
    add_colourbar(chart, [[0, "#000"], [1, "#fff"]], 1.0)
    before = chart.figure().to_dict()
    low = chart.at_height(385).figure().layout
    assert chart.figure().to_dict() == before and low.height == 385
    plot, was = 385 - low.margin.t - low.margin.b, 700 - low.margin.t - low.margin.b
    pixels = [part * plot for part in low.yaxis3.domain]
    assert pixels == pytest.approx([part * was for part in before["layout"]["yaxis3"]["domain"]])
    assert low.yaxis.domain[0] * plot > pixels[1] and low.yaxis.domain[1] == 1
    map_height = plot * (low.yaxis.domain[1] - low.yaxis.domain[0])
    assert 12 <= map_height / len(low.yaxis.tickvals) < 36  # LABEL is 12 pixels high
    assert low.yaxis.ticktext[1].endswith(f" {low.yaxis.tickvals[1]}")
    assert len(low.yaxis2.tickvals) == 31  # the hover text still has each


def test_without_plotly_a_chart_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)  # as where it is not installed
    with pytest.raises(ImportError, match=r'plotly.*pip install "attnviz\[app\]"'):
        Chart().figure()
