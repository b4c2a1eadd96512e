"""Ways to write the right answer to a question, and its known wrong answers."""

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


def wrong_answers(answer: Answer) -> list[str]:
    """Write the known wrong answers of a question; for an order, one that is wrong."""
    match answer:
        case NumberAnswer():
            return [repr(each.value) for each in answer.wrong]
        case ShapeAnswer():
            return [str(shape) for shape, _ in answer.wrong]
        case ChoiceAnswer():
            return [str(i) for i in range(len(answer.options)) if i != answer.right]
        case OrderAnswer():
            return [", ".join(str(i + 1) for i in answer.order[::-1])]
        case ExpressionAnswer():
            return list(answer.wrong)
        case CellAnswer():
            return [f"{i}, {j}" for (i, j), _ in answer.wrong]


def listed(answer: Answer) -> list[str]:
    """Return the reasons in the order of `wrong_answers`."""
    match answer:
        case NumberAnswer():
            return [each.explanation for each in answer.wrong]
        case ShapeAnswer() | CellAnswer():
            return [why for _, why in answer.wrong]
        case ExpressionAnswer():
            return list(answer.wrong.values())
        case ChoiceAnswer():
            return [why for i, why in enumerate(answer.explanations) if i != answer.right]
