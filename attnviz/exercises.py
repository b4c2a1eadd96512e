"""Subjects of the questions, graded and spoken, and the tasks to write yourself: {name in links: title}, in list order.

No torch, so that settings can name them and progress can be read without it. What they ask is in `attnviz/practice/`.
"""

from dataclasses import dataclass
from datetime import date

SUBJECTS = {
    "shapes": "Shapes",
    "heads": "Heads and grouping",
    "masks": "Masks and softmax",
    "rope": "RoPE",
    "cost": "Parameters and cache",
    "decoding": "Decoding and speed",
}
SPOKEN = {  # of the questions to answer aloud: the names of their files
    "mechanism": "Mechanism",
    "positions": "Positions",
    "sharing": "Sharing keys and values",
    "cache": "Cache",
    "serving": "Serving",
    "since-2025": "Newer mechanisms",
    "board": "At the board",
    "wrong-answers": "What is wrong with this answer?",
}
TASKS = {
    "attention": "Scaled dot-product attention",
    "self-attention": "Single-head self-attention",
    "mha": "Causal multi-head attention",
    "gqa": "Grouped-query attention",
    "rope": "RoPE: angles and rotation",
    "rms-norm": "RMSNorm",
    "swiglu": "SwiGLU",
    "cache": "Decoding with a KV cache",
    "block": "A pre-norm block",
    "top-p": "Top-p (nucleus) sampling",
    "mla": "Multi-head latent attention",
    "flash": "Tiled (flash) attention",
    "delta": "The gated delta rule",
    "sparse": "Sparse attention with an indexer",
}
DRILL, MISTAKE = "drill:", "mistake:"  # begin the ids of missed drills and mistakes, which come back as cards do
SOLID_DAYS = 21  # a card that comes back after so many days is known well


@dataclass(frozen=True)
class CardState:
    """When a card is due (an ISO date), the days since it was asked, its ease, and how often it was answered.

    missed: of a drill, the seed of the question that was missed and, if it is known, the place of the mistake among
    those that its kind knows, such as "471100:2"; "" if it was kept before that was.
    """

    due: str
    interval_days: int
    ease: float
    seen: int
    missed: str = ""

    def comes_back(self, interview: str) -> str:
        """Return the day on which it comes back: when it is due or, unless it is solid, before an interview.

        interview: its day (an ISO date); "" for none. A card that was answered the day before comes back on the day
        itself; one that was answered on this day, when it is due.
        """
        if not interview or not self.due or self.interval_days >= SOLID_DAYS:
            return self.due
        day, due = date.fromisoformat(interview).toordinal(), date.fromisoformat(self.due).toordinal()
        answered = due - self.interval_days
        last = next((each for each in (day - 1, day) if each > answered), due)
        return date.fromordinal(min(due, last)).isoformat()
