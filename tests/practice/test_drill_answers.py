"""Typed answers: what is read, what is asked about, and what is refused."""

import math
import re

import pytest

from attnviz.practice.drills import KINDS
from attnviz.practice.drills.answers import BYTES, ExpressionAnswer, NumberAnswer, ShapeAnswer, Wrong
from attnviz.practice.drills.evaluate import Unreadable, evaluate
from tests.practice.asked import make


def test_an_answer_in_the_wrong_unit_is_named():
    question = make("cache_of_a_context", 3)
    answer = question.answer
    size = answer.value * BYTES["GiB"]
    assert question.grade(f"{size / 1e9} GB").right and question.grade(f"{size / 2**20} MiB").right
    grade = question.grade(str(size / 1e9))
    assert not grade.right and "GB" in grade.explanation
    assert "K and V once" in question.grade(str(answer.value / 2)).explanation


@pytest.mark.parametrize(
    ("written", "value"),
    [("2·32·8", 512), ("32,768 x 4,096", 2**27), ("2x(3+4)", 14), ("2 x pi x 3", 6 * math.pi), ("sqrt(4) x sqrt(9)", 6),
     ("1,048,576", 2**20), ("2^10 − 24", 1000),
     ("sqrt(64)/2", 4), ("−3", -3), ("1e-3", 0.001), ("12 345 678", 12345678), ("cos(0)", 1),
     ("exp(0) + ln(1)", 1), ("69 %", 0.69), ("69%", 0.69), ("e^-2", math.exp(-2)), ("ln 16", math.log(16)),
     ("log2(16)", 4), ("tanh 2", math.tanh(2)), ("exp -1", None),
     ("2·6·13²", 2028), ("10⁻³", 0.001), ("2³⁰", 2**30), ("2π·3", 6 * math.pi), ("3 − 2π", 3 - 2 * math.pi),
     ("e^(2π)", math.exp(2 * math.pi)), ("1/2π", None), ("2^2π", None), ("e^-2π", None), ("²", None),
     ("floor(9/4)", 2), ("⌊9/4⌋", 2), ("ceil 2.5", 3), ("⌈9/4⌉", 3), ("9//4", 2), ("4×", 4), ("1,024 x", 1024),
     ("2·×", None), ("KV 2", 2), ("KV head 12", 12), ("line 3", 3), ("minus 3", None)],
)  # fmt: skip
def test_what_is_typed_is_evaluated(written, value):
    if value is None:
        with pytest.raises(Unreadable):
            evaluate(written)
    else:
        assert evaluate(written) == pytest.approx(value)


@pytest.mark.parametrize(
    "written",
    ["", "x", "__import__('os')", "(1).real", "[1]", "1 if 1 else 2", "9**9**9**9", "1/0", "'a'*9", "lambda: 1",
     "(" * 150, "1" * 201, "exp(1000)", "(-8)^0.5", "True", "1;2", "a=1", "1e999", "1//0", "floor(1,2)",
     "9⁹⁹⁹⁹", "floor(10^400)"],
)  # fmt: skip
def test_nothing_else_is_run(written):
    with pytest.raises(Unreadable):
        evaluate(written)


def test_a_number_may_be_rounded_to_two_decimals_where_a_tolerance_is_given():
    """Of −0.0620, "−0.06" is as right as it can be with two decimals, and not within 2 %."""
    answer = NumberAnswer(-0.0620, tolerance=0.02, wrong=(Wrong(0.07, "the other"),))
    assert [answer.grade(each).right for each in ("-0.06", "−0.062", "-0.0620", "-0.0612")] == [True] * 4
    assert [answer.grade(each).right for each in ("-0.1", "-0.07", "0.06", "0.00", "-0.065", "-0.06*1.0")] == [
        False
    ] * 6
    assert not NumberAnswer(0.0004, tolerance=0.01).grade("0.00").right
    assert not NumberAnswer(7.25).grade("7.2500001").right  # exact where no tolerance is given


@pytest.mark.parametrize(
    ("given", "message"),
    [("128 KB", "1 kB is 1,000 B here, and 1 KiB is 1,024 B"), ("0.125 MB", "1 MiB is 1,048,576 B")],
)
def test_a_decimal_unit_in_place_of_a_binary_one_is_asked_about(given, message):
    grade = NumberAnswer(131_072, "B", 0.005).grade(given)
    assert not grade.read and message in grade.explanation
    assert NumberAnswer(131_072, "B", 0.005).grade(given.replace("KB", "KiB").replace("MB", "MiB")).right
    assert NumberAnswer(128_000, "B").grade("128 KB").right


def test_a_binary_unit_after_the_number_of_decimal_ones_is_converted():
    answer = NumberAnswer(14.6, "GB", 0.01, (Wrong(7.3, "half"),))
    grade = answer.grade("14.6 GiB")
    assert grade.explanation == "14.60 GB is 13.60 GiB." and grade.read and not grade.right
    assert answer.grade("13.6 GiB").right and answer.grade("14600 MB").right
    assert NumberAnswer(131_072, "B").grade("131072 KiB").explanation == "131,072 B is 128 KiB."


def test_a_count_in_thousands_of_1024_is_asked_about():
    answer = NumberAnswer(32_768, "tokens", 0.01)
    assert not answer.grade("32k").read and "not of 1,024" in answer.grade("32k").explanation
    assert answer.grade("32.8k").right and answer.grade("33k tokens").right and not answer.grade("31k").right
    exact = NumberAnswer(884_736, "", 0.002)
    assert all(exact.grade(text).right for text in ("0.88M", "0.885 million", "0.88 million", "885k"))
    assert not exact.grade("0.89M").right and not exact.grade("0.9M").right
    assert answer.grade("31k").read and NumberAnswer(1.41e9, "", 0.005).grade("1.41B").right


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("151M", "Write 151M as 151e6"),
        ("582 tok/s", "Leave out the unit"),
        ("2LKD", "Write . or"),
        ("three", "“three” is not read: type a number"),
    ],
)
def test_what_is_not_read_is_answered_by_what_to_change(written, hint):
    with pytest.raises(Unreadable, match=hint):
        evaluate(written)


def value_read(given: str, unit: str) -> float | str:
    """Return the number as which a typed answer is read, or the hint."""
    grades = {}
    for candidate in CANDIDATES:
        grades[candidate] = NumberAnswer(candidate, unit).grade(given)
    right = [candidate for candidate, grade in grades.items() if grade.right]
    assert len(right) <= 1
    return right[0] if right else next(iter(grades.values())).explanation


READ = {
    "1.5 GiB": (1.5, "GiB"), "1,5": (1.5, ""), "1,5 GiB": (1.5, "GiB"), "1.234,5": (1234.5, ""),
    "1,234.5": (1234.5, ""), "1 536": (1536, ""), "1_536": (1536, ""), "1'536": (1536, ""), "1’536": (1536, ""),
    "1\u202f536": (1536, ""), "1\u2009536": (1536, ""), "1,536": (1536, ""), "1 234 567,8": (1234567.8, ""),
    "1.048.576": (2**20, ""), "0,512": (0.512, ""), "1e-3": (0.001, ""), "1E-3": (0.001, ""), "10^-3": (0.001, ""),
    "1.5·10^3": (1500, ""), "1.5 × 10³": (1500, ""), "1,5e3": (1500, ""), "3/8": (0.375, ""), "⅜": (0.375, ""),
    "3÷8": (0.375, ""), "√2/2": (math.sqrt(0.5), ""), "sqrt(2)/2": (math.sqrt(0.5), ""), "√(2)/2": (math.sqrt(0.5), ""),
    "sqrt2/2": (math.sqrt(0.5), ""), "1/√2": (math.sqrt(0.5), ""), "2√2/4": (math.sqrt(0.5), ""),
    "-32/√100": (-3.2, ""), "−32 / √100": (-3.2, ""), "2^10": (1024, ""), "2**10": (1024, ""), "2¹⁰": (1024, ""),
    "10 %": (0.1, ""), "10%": (0.1, ""), "10 percent": (0.1, ""), "10 per cent": (0.1, ""), "１０％": (0.1, ""),
    "12·64": (768, ""), "12x64": (768, ""), "12 x 64": (768, ""), "12×64": (768, ""), "12*64": (768, ""),
    "12•64": (768, ""), "12∗64": (768, ""), "−8": (-8, ""), "–8": (-8, ""), "－８": (-8, ""), "‑8": (-8, ""),
    "１５３６": (1536, ""), "１，５３６": (1536, ""), "１．５": (1.5, ""), "١٥٣٦": (1536, ""), "١٫٥": (1.5, ""),
    "≈3.2": (3.2, ""), "~ 3.2": (3.2, ""), "approx. 3.2": (3.2, ""), "ca. 3.2": (3.2, ""), "about 3.2": (3.2, ""),
    "= 42": (42, ""), "42.": (42, ""), "042": (42, ""), "42 keys": (42, ""), "42 KV heads": (42, ""), 
    "x = 42": (42, ""), "π/2 rad": (math.pi / 2, "rad"), "0.5π": (math.pi / 2, "rad"),
    "The answer is 42.": (42, ""), "it's 42": (42, ""), "Answer: 42": (42, ""), "6·7 = 42": (42, ""), "42×": (42, ""),
    "4096 bits": (512, "B"), "512 bytes": (512, "B"), "0.5 KiB": (512, "B"), "512b": ("b can mean bits", "B"),
    "1.5 GIB": (1.5, "GiB"), "1536 MiB": (1.5, "GiB"), "1536MiB": (1.5, "GiB"), "1,536 MiB": (1.5, "GiB"),
    "1.5 gibibytes": (1.5, "GiB"), "1.610612736 GB": (1.5, "GiB"), "1.610612736 gb": (1.5, "GiB"),
    "1.5 Gib": ("Gib can mean bits", "GiB"), "1.5 Gb": ("Gb can mean bits", "GiB"), "1.5 G": ("G can be GB", "GiB"),
    "0.042 s": (42, "ms"), "42 ms": (42, "ms"), "42000 µs": (42, "ms"), "42 milliseconds": (42, "ms"),
    "42 tokens": (42, "tokens"), "42 tok/s": (42, "tokens/s"), "42 tokens per second": (42, "tokens/s"),
    "180°": (math.pi, "rad"), "180 degrees": (math.pi, "rad"), "pi": (math.pi, "rad"), "π rad": (math.pi, "rad"),
    "1.536 million": (1_536_000, ""), "1.536 million parameters": (1_536_000, ""), "1.536e6": (1_536_000, ""),
    "1.536M": (1_536_000, ""), "1.536 M": (1_536_000, ""), "1536k": (1_536_000, ""), "1,536K": (1_536_000, ""),
    "1.536M parameters": (1_536_000, ""), "1.536M tokens": (1_536_000, "tokens"), "0.001536B": (1_536_000, ""),
    "1.536 bn": (1_536_000_000, ""), "1.536 million bytes": (1_536_000, "B"), "1.5 billion B": (1_500_000_000, "B"),
    "3.4k": (3400, "tokens/s"), "3.4k tokens/s": (3400, "tokens/s"), "3.4 thousand tokens/s": (3400, "tokens/s"),
    "1.536 MB": ("“MB” is not the unit", ""), "1536000 B": ("“B” is not the unit", ""),
    "1.5 k": ("k can be kB", "GiB"),
    "42 GB": ("“GB” is not the unit of the answer: give it in ms", "ms"), "5–6": ("can be a range", ""),
    "1,0485,76": ("not one number", ""), "1.2.3": ("not one number", ""), "0x40": ("two meanings", ""),
    "1/2π": ("two meanings", ""), 
    "e^2π": ("two meanings", ""), "exp(1,5)": ("two meanings. Type 1.5", ""), "2, 3": ("Type one number", ""),
    "2(3+4)": ("· or * between factors", ""), "2*3 = 7": ("“2*3” is 6, not 7", ""),
    "3!": ("is not a number", ""), "minus 8": ("is not a number", ""), "half": ("is not read", ""),
    "≤ 8": ("not a", ""),
}  # fmt: skip
CANDIDATES = sorted({each for each, _ in READ.values() if not isinstance(each, str)} | {77.0})


@pytest.mark.parametrize("given", READ)
def test_what_people_type_is_that_number_or_gets_a_hint(given):
    """Nothing is read as a number that it is not: each answer is right for one of the candidates or for none."""
    expected, unit = READ[given]
    found = value_read(given, unit)
    if isinstance(expected, str):
        assert isinstance(found, str) and expected in found, found
        assert not any(NumberAnswer(each, unit).grade(given).read for each in CANDIDATES)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("given", "right", "hint"),
    [
        ("5,692", 5.692, "“5,692” has two meanings. Type 5692 without a separator, or 5.692."),
        ("5,692", 5692, ""), ("5,692", 7.0, None), ("5.692", 5.692, ""), ("5.692", 5692, "or 5.6920."),
        ("5.6920", 5692, None), ("5,6920", 5.692, ""), ("131.072", 131_072, "Type 131072 without a separator"),
        ("131,072", 131_072, ""), ("12,500·2", 25, "Type 12500"), ("０，５１２", 0.512, ""),
        ("-5,692", -5.692, "5.692"),
        ("3,141", 3.5, "3.141"),  # a known mistake
    ],
)  # fmt: skip
def test_a_number_with_two_meanings_is_asked_about_where_it_matters(given, right, hint):
    """hint: "" where the answer is right, None where it is wrong in either meaning."""
    grade = NumberAnswer(right, tolerance=0.001, wrong=(Wrong(3.141, "a mistake"),)).grade(given)
    if hint:
        assert not grade.read and hint in grade.explanation
    else:
        assert grade.read and grade.right == (hint == "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("(2, 3, 144)", ""), ("[2,3,144]", ""), ("2 3 144", ""), ("2x3x144", ""), ("2 × 3 × 144", ""), ("2;3;144", ""),
        ("torch.Size([2, 3, 144])", ""), ("shape = (2, 3, 144)", ""), ("(2, 3, 144,)", ""), ("2, 3, 6*24", ""),
        ("2, 3, 6·24", ""), ("(2, 3, 6 x 24)", ""), ("２，３，１４４", ""), ("2、3、144", ""), ("= (2, 3, 144).", ""),
        ("B,T,C", "not as letters"), ("2, 3, C", "not as letters"), ("2.5, 3", "whole numbers"), ("", "whole numbers"),
        ("2, 3, -1", "whole numbers"), ("2, 3, 0144", "cannot begin with 0"), ("2,,3", "is not a number"),
    ],
)  # fmt: skip
def test_a_shape_is_read_in_any_notation(given, expected):
    grade = ShapeAnswer((2, 3, 144)).grade(given)
    assert grade.right == (not expected) and (not expected or (expected in grade.explanation and not grade.read))
    assert not ShapeAnswer((2, 3, 6, 24)).grade(given).right


def test_a_comma_in_a_size_of_a_shape_is_asked_about():
    assert "Type each size without one" in ShapeAnswer((2, 1536)).grade("2, 1,536").explanation
    assert ShapeAnswer((2, 1, 536)).grade("2, 1,536").right and ShapeAnswer((1, 536)).grade("1,536").right


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2·L·K·D·b", ""), ("2*L*K*D*b", ""), ("2LKDb", ""), ("2 L K D b", ""), ("2L·KD·b", ""), ("b(2L)(KD)", ""),
        ("= 2LKDb bytes", ""), ("cache = 2·L·K·D·b", ""), ("2 × L × K × D × b", ""), ("2 x L x K x D x b", ""),
        ("(L + L)·K·D·b", ""), ("２·L·K·D·b", ""), ("L·K·D·b", "once"), ("LKDb", "once"),
        ("2LKDB", "between the factors"),
        ("4LKDb/2", ""), ("1/2L", "two meanings: write brackets"), ("2^2L", "two meanings"),
        ("2·l·K·D·b", "not a variable"),
        ("b = 2·L·K·D·b", "without an equals sign"),
    ],
)  # fmt: skip
def test_a_formula_is_read_as_it_is_written(given, expected):
    letters = {"L": "layers", "K": "KV heads", "D": "head_dim", "b": "bytes per number"}
    grade = ExpressionAnswer("2*L*K*D*b", letters, {"L*K*D*b": "You counted K and V once."}).grade(given)
    assert grade.right == (not expected) and expected in grade.explanation


@pytest.mark.parametrize("name", KINDS)
def test_each_right_answer_is_accepted_as_people_write_it(name):
    """With a decimal comma, after "=" or "≈", in full-width digits, in a sentence, with its unit."""
    for seed in range(12):
        question = make(name, seed)
        match question.answer:
            case NumberAnswer(value=value, unit=unit, tolerance=tolerance):
                exact = f"{value:.6g}" if tolerance else repr(value)
                wide = exact.translate({ord("0") + i: chr(ord("０") + i) for i in range(10)} | {ord("."): "．"})
                typed = [f"= {exact}", f"≈ {exact}", f"The answer is {exact} {unit}.", f"{exact}{unit}", wide]
                typed += [f"{value:.4f}".replace(".", ",")] if tolerance and abs(value) > 1 else []
                typed += [f"{value:,}".replace(",", each) for each in " '_\u202f"] if value == int(value) else []
            case ShapeAnswer(shape=shape):
                typed = [str(list(shape)), f"torch.Size({list(shape)})", "，".join(map(str, shape))]
            case ExpressionAnswer(formula=formula):
                typed = [formula.replace("*", each) for each in ("·", " × ", " x ")] + [f"= {formula}"]
                typed += [re.sub(r"\*(?!\d)", "", formula)]
            case _:
                continue
        for given in typed:
            assert question.grade(given).right, (question.text, given, question.grade(given))


@pytest.mark.parametrize("typed", ["1.2 GiB", "1,2 GiB", "6/5", "1228.8 MiB", "1.29 GB", "1290 MB", "1,29e9 B"])
def test_a_size_is_read_in_any_unit_of_bytes(typed):
    assert NumberAnswer(1.2, "GiB", 0.01).grade(typed).right


def test_bits_typed_for_bytes_are_named_unless_another_mistake_leads_there():
    answer = NumberAnswer(96, "B", 0.01, (Wrong(48, "K and V once"),))
    assert answer.grade("768").explanation == "That is in bits: 8 bits are one byte."
    other = NumberAnswer(96, "B", 0.01, (Wrong(768, "That is for all layers."),))
    assert other.grade("768").explanation == "That is for all layers."
