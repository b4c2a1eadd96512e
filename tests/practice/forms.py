"""Ways to write the right answer to a question."""

from attnviz.practice.drills.answers import (
    BYTES,
    Answer,
    CellAnswer,
    ChoiceAnswer,
    ExpressionAnswer,
    NumberAnswer,
    OrderAnswer,
    ShapeAnswer,
)  # fmt: skip


def forms(answer: Answer) -> list[str]:
    """List some ways to write the right answer, the plainest first."""
    match answer:
        case NumberAnswer(value=value, unit=unit):
            exact = repr(value)
            found = [exact, f" {exact} ", f"{exact} {unit}", f"({exact})", f"{exact}*2/2"]
            if float(value).is_integer():
                found += [f"{int(value):,}", str(int(value))]
            if unit in BYTES:
                found += [f"{value * BYTES[unit]!r} B", f"{value * BYTES[unit] / 1e6!r} MB"]
            return found
        case ShapeAnswer(shape=shape):
            return [answer.shown(), *(between.join(map(str, shape)) for between in (", ", ",", " ", " x ", "×"))]
        case ChoiceAnswer(right=right):
            return [str(right)]
        case OrderAnswer(order=order):
            numbers = [str(i + 1) for i in order]
            return [", ".join(numbers), " ".join(numbers), " > ".join(numbers)]
        case ExpressionAnswer(formula=formula):
            return [formula, answer.shown(), f"({formula})", f"0 + {formula}"]
        case CellAnswer(cell=(i, j)):
            return [f"{i}, {j}", f"{i} {j}", f"({i},{j})", answer.shown()]
