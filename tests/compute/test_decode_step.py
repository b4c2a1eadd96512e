"""The walk through a decode step shows the executed source and the Decode page's token; its arithmetic is right."""

from pathlib import Path

import numpy as np
import pytest

from attnviz import decode, modules
from attnviz.compute import decode as decoding
from attnviz.compute import steps as compute
from attnviz.compute.view import View
from attnviz.compute.vocabulary import vocabulary
from attnviz.decode.sampling import uniform
from attnviz.figures import step_captions as captions
from attnviz.session.settings import Settings
from attnviz.steps import arithmetic
from attnviz.trace import trace
from attnviz.ui.components.source_walk import pack
from tests.arithmetic import check

TEXT = "The old man found a red ball. The old man"
FILTERS = {
    "penalise_repetition": {"penalty": 1.3}, "scale_by_temperature": {"temperature": 0.7}, "keep_top_k": {"top_k": 37},
    "keep_top_p": {"top_p": 0.9}, "keep_min_p": {"min_p": 0.02}, "keep_largest": {"temperature": 0.0},
}  # fmt: skip
ALL = {"penalty": 1.3, "temperature": 0.7, "top_k": 37, "top_p": 0.9, "min_p": 0.02}
OFF = {"penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def view(**changes: object) -> View:
    return View(Settings(**{"text": TEXT, **changes}))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{**ALL, "model": "mla"}, {"temperature": 0.0, "model": "own", "text": "a"}])
def test_the_token_chosen_is_that_of_decode_and_each_entry_is_its_arithmetic(changes: dict) -> None:
    v = view(**changes, draw_seed=29)
    written = decoding.written_of(v).steps
    for each, n_written in ((v, 0), (v.but(written=tuple(step.id for step in written[:4]), shown=3), 3)):
        step = compute.decode_step_of(each)
        assert step.ids == (*v.ids, *(s.id for s in written[:n_written])) and step.chosen == written[n_written].id
        run = step.walk.run
        assert np.allclose(run.logits[0], trace(v.model, step.ids).logits[-1], atol=1e-4)
        rng, checked = np.random.default_rng(0), set()
        for line in run.lines:
            for operation in line.operations:
                for value in operation.outputs:
                    if not value.entries.size:
                        continue
                    at = tuple(int(rng.integers(n)) for n in value.shape)
                    how = arithmetic(line.operations, value, at)
                    if how is not None and how.computed is not None:
                        assert how.computed == pytest.approx(how.value, rel=1e-4, abs=1e-5, nan_ok=True), operation.name
                        checked.add(how.operation)
        assert {"softmax", "cumsum", "linear"} <= checked


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_is_walked_where_it_is_on_and_its_source_is_the_file(name: str) -> None:
    run = compute.decode_step_of(view(**OFF | FILTERS[name])).walk.run
    functions = {call.function for call in run.calls}
    assert functions & {*FILTERS} == {name}
    assert {"_steps", "read", "distribution", "stages", "draw", "KVCache.append", "attend"} <= functions
    for call in run.calls:
        file = Path({"decode": decode, "modules": modules}[call.folder].__file__).parent / call.file
        assert file.read_text().splitlines()[call.first - 1].strip() in call.source


def test_the_token_chosen_is_looked_at_in_the_vocabulary_and_named() -> None:
    v = view(**ALL)
    step, words = compute.decode_step_of(v), vocabulary(v.settings)
    labels, found = [words[i] for i in step.ids], 0
    for stop in step.walk.stops:
        for shown in stop.shown:
            text = captions.arithmetic_text(shown.arithmetic)
            assert " = " not in text or "∞" in text or check(text, False) == [], text
            if shown.picture.axes == ("V",):
                place = captions.place_text(shown.picture, labels, words)
                assert place == f"column {step.chosen} “{words[step.chosen]}”"
                found += 1
            if shown.picture.axes[-2:-1] == ("T",):
                assert captions.place_text(shown.picture, labels).startswith(f"row 0 “{labels[-1]}”")
    assert found > 12
    ends = next(s for stop in step.walk.stops for s in stop.shown if s.name == "ends").picture.value.entries
    u = uniform(v.settings.draw_seed, len(step.ids))
    assert (ends[step.chosen - 1] if step.chosen else 0) <= u * ends[-1] < ends[step.chosen]
    assert len(pack(step.walk, labels, v.config.n_kv_heads, 0, words)) > 10_000


@pytest.mark.parametrize("model", ["gqa-4", "mla"])
def test_the_walk_opens_on_the_models_first_tensor_and_a_link_with_a_line_on_that(model: str) -> None:
    v = view(model=model)
    walk = compute.decode_step_of(v).walk
    opening = walk.stops[compute.decode_stop_of(v, walk)]
    assert walk.run.calls[opening.line.call].file == "transformer.py" and "embedding" in opening.operations
    assert [compute.decode_stop_of(v.but(decode_step=n), walk) for n in (0, 5)] == [0, 5]
    assert compute.decode_stop_of(v.but(decode_step=9_999), walk) == len(walk.stops) - 1
