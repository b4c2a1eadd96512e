"""Saved runs: what was saved comes back, and a damaged, foreign or too large file is refused in one sentence."""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save, save_file

import attnviz
from attnviz.runs.file import METADATA, Limits, open_run, save_run
from attnviz.runs.run import AttentionRun, run_of
from tests.runs.test_run import H, L, S, T, names, rows

TOKENS = ["a<b>", "中文", "👩‍👩‍👧", "\ud800", "עברית"]


def full() -> AttentionRun:
    """A run that has everything."""
    weights = {"encoder": rows(L, H, S, S), "decoder": rows(L, H, T, T).astype(np.float16), "cross": rows(L, H, T, S)}
    return run_of(
        weights, {"encoder": names(S, "s"), "decoder": TOKENS}, n_kv_heads={"decoder": 1},
        q={"decoder": rows(L, H, T, 11)}, k={"decoder": rows(L, 1, T, 11)}, v={"decoder": rows(L, 1, T, 13)},
        gradients={"cross": -rows(L, H, T, S)},
        logits=rows(T, 17), picture=np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3), patches=(2, 3), n_before=1,
        output_from=3, names=["first", "second"], title="Translated",
    )  # fmt: skip


def small(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run.safetensors", rows(L, H, T, T), names(T))


def arrays(run: AttentionRun) -> dict[str, np.ndarray]:
    found = {f"{kind.name}.{i}": layer for kind in run.kinds for i, layer in enumerate(kind.layers)}
    for what in ("q", "k", "v", "gradients"):
        found |= {f"{what}.{n}.{i}": each for n, layers in getattr(run, what).items() for i, each in enumerate(layers)}
    return found | {"logits": run.logits, "picture": run.picture}  # type: ignore[dict-item]


@pytest.mark.parametrize("as_bytes", [False, True])
def test_all_comes_back(tmp_path: Path, as_bytes: bool) -> None:
    saved, path = full(), tmp_path / "run.safetensors"
    assert save_run(path, saved) == path
    opened = open_run(path.read_bytes() if as_bytes else path)
    assert {n: (a.dtype, a.tolist()) for n, a in arrays(opened).items()} == {
        n: (a.dtype, a.tolist()) for n, a in arrays(saved).items()
    }
    described = ("tokens", "key_tokens", "n_kv_heads", "first_row", "name")
    assert [[getattr(k, f) for f in described] for k in opened.kinds] == [
        [getattr(k, f) for f in described] for k in saved.kinds
    ]
    whole = ("patches", "n_before", "output_from", "names", "title", "notes")
    assert [getattr(opened, f) for f in whole] == [getattr(saved, f) for f in whole]
    assert not any(array.flags.writeable for array in arrays(opened).values())


def test_the_surface(tmp_path: Path) -> None:
    path = attnviz.save_run(str(tmp_path / "mine"), rows(H, T, S), names(T), key_tokens=names(S, "s"))
    assert attnviz.open_run(str(path)).kinds[0].cross


def test_views_are_saved_as_they_look(tmp_path: Path) -> None:
    """Arrays that are not contiguous: safetensors would write their memory as it lies."""
    weights = rows(T, L, T, H).transpose(1, 3, 0, 2)
    opened = open_run(save_run(tmp_path / "run", weights, names(T)))
    assert (np.stack(opened.kinds[0].layers) == weights).all()


def test_other_tensors_are_named(tmp_path: Path) -> None:
    path = small(tmp_path)
    about = {
        METADATA: json.loads(path.read_bytes()[8:][: int.from_bytes(path.read_bytes()[:8], "little")])["__metadata__"][
            METADATA
        ]
    }
    save_file({**load_file(path), "bias": np.zeros(3, np.float64)}, path, about)
    (note,) = open_run(path).notes
    assert "1 tensor" in note and "bias" in note


# ---- refused


def described(path: Path, change: Any) -> bytes:
    """Return a saved run's bytes with another description."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    info = json.loads(header["__metadata__"][METADATA])
    change(info)
    return save(load_file(path), {METADATA: json.dumps(info)})


def with_entry(path: Path, name: str, **facts: Any) -> bytes:
    """Return a saved run's bytes with another header entry."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header[name] = {**header.get(name, {}), **facts}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def first_kind(**fields: Any) -> Any:
    return lambda info: info["kinds"][0].update(fields)


DAMAGED = {
    "cut off": (lambda path: path.read_bytes()[:-100], ["attention.self", "incomplete"]),
    "empty": (lambda path: b"", ["not a safetensors file", "save_run"]),
    "a pickle": (lambda path: b"\x80\x04" + b"x" * 200, ["not a safetensors file"]),
    "a zip": (lambda path: b"PK\x03\x04" + b"\0" * 200, ["safetensors"]),
    "another safetensors": (lambda path: save({"a": np.zeros(2)}), ["no saved run", "save_run"]),
    "a huge shape": (lambda path: with_entry(path, "attention.self.0", shape=[10**6, 10**6, 10**6]), ["GB"]),
    "a wrong shape": (
        lambda path: with_entry(path, "attention.self.0", shape=[1, 2, 3]),
        ["attention.self.0", "damaged"],
    ),
    "an offset outside": (lambda path: with_entry(path, "attention.self.0", data_offsets=[0, 10**9]), ["not whole"]),
    "another type": (lambda path: with_entry(path, "attention.self.0", dtype="I32"), ["I32", "F16"]),
    "a newer format": (lambda path: described(path, lambda info: info.update(format=2)), ["format 2", "opens 1"]),
    "no kinds": (lambda path: described(path, lambda info: info.update(kinds=[])), ["at least one"]),
    "kinds of another type": (lambda path: described(path, lambda info: info.update(kinds=3)), ["kinds", "list"]),
    "a missing layer": (lambda path: described(path, first_kind(n_layers=L + 1)), ["attention.self.2"]),
    "too many layers": (lambda path: described(path, first_kind(n_layers=10**9)), ["n_layers"]),
    "an unknown kind": (lambda path: described(path, first_kind(name="other")), ["other", "cross"]),
    "other tokens": (lambda path: described(path, first_kind(tokens=["a"])), ["5 rows", "1 token was given"]),
    "tokens of another type": (lambda path: described(path, first_kind(tokens=7)), ["tokens", "7"]),
    "a wrong first row": (lambda path: described(path, first_kind(first_row="x")), ["first_row", "x"]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    make, said = DAMAGED[name]
    with pytest.raises(ValueError) as caught:
        open_run(make(small(tmp_path)))
    assert [part for part in said if part not in str(caught.value)] == [], str(caught.value)


def test_nan_in_a_file_is_refused(tmp_path: Path) -> None:
    path = small(tmp_path)
    data = bytearray(path.read_bytes())
    data[-4:] = np.float32(np.nan).tobytes()
    with pytest.raises(ValueError, match="NaN"):
        open_run(data)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(nbytes=L * H * T * T * 4 - 1), "GB of memory"),
        (Limits(n_tokens=T - 1), "5 tokens; at most 4"),
        (Limits(n_heads=L * H - 1), "6 heads; at most 5"),
    ],
)
def test_larger_than_the_limits(tmp_path: Path, limits: Limits, said: str) -> None:
    path = small(tmp_path)
    with pytest.raises(ValueError, match=said):
        open_run(path, limits)
    assert open_run(path, Limits(L * H * T * T * 4, T, L * H)).kinds


def test_sizes_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    """A sparse file of 4 GB that is as large as its header says, opened by a process that may have 1 GB."""
    data = small(tmp_path).read_bytes()
    text = with_entry(
        tmp_path / "run.safetensors", "attention.self.0", shape=[1, 2**15, 2**15], data_offsets=[0, 2**32]
    )
    path, length = tmp_path / "large", int.from_bytes(text[:8], "little")
    with path.open("wb") as file:
        file.write(text[: 8 + length])
        file.truncate(8 + length + 2**32 + len(data))
    code = (
        "import resource, sys; from attnviz.runs.file import *\n"
        "resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))\n"
        "try: open_run(sys.argv[1], Limits(nbytes=10**9))\nexcept ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "4.29 GB of memory; at most 1.00 GB" in run.stdout


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    for act, said in [
        (lambda: open_run(tmp_path / "none"), "There is no file"),
        (lambda: open_run(tmp_path), "is a folder"),
        (lambda: save_run(tmp_path / "none" / "run", rows(H, T, T), names(T)), "There is no folder"),
    ]:
        with pytest.raises(ValueError, match=said):
            act()


def smallest() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return save_run(Path(folder) / "run", rows(1, 1, 2, 2), ["a", "b"]).read_bytes()


SMALLEST = smallest()


@settings(max_examples=60)
@given(st.data())
def test_any_changed_byte_opens_or_is_refused(data: st.DataObject) -> None:
    """Bytes of the header changed at random: a run, or ValueError; nothing else."""
    changed = bytearray(SMALLEST)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert open_run(bytes(changed)).kinds


def test_a_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    """safetensors writes files that only their owner can read; an existing file keeps its mode."""
    other = tmp_path / "other"
    other.touch()
    path = save_run(tmp_path / "run.safetensors", run_of(np.full((1, 1, 2, 2), 0.5), ["a", "b"]))
    assert path.stat().st_mode == other.stat().st_mode
    path.chmod(0o640)
    assert save_run(path, open_run(path)).stat().st_mode & 0o777 == 0o640
