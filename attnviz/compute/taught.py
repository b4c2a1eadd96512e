"""What a route has taught before one of its items, and so what its mock interview may ask.

The rule: what the lessons before the item explain, and nothing harder than what its items ask. A drill and a mistake is
explained by any of their lessons, a card by all of its together. What earlier items asked is not asked again while
enough else is left. Outside a route there is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from attnviz.compute import routes, spoken
from attnviz.practice.drills import KINDS
from attnviz.session.settings import Settings

MASKS, HEADS, ROPE, STATE = "score-to-weight", "many-heads", "rope-pictures", "state-not-cache"
MISTAKES = {  # by id: the lessons each of which explains what is mistaken; the others are explained by none
    "attribute_before_assignment": (), "attention_across_the_batch": (), "mask_of_another_batch": (),
    "left_padding_without_shifted_positions": (), "dropout_in_evaluation": (), "sigmoid_gate": (),
    "norm_on_residual_sum": (), "fully_masked_row": (MASKS,), "mask_never_used": ("one-head", MASKS),
    "padding_mask_over_queries": (MASKS,), "mask_after_softmax": (MASKS,), "scores_overflow_in_fp16": (MASKS,),
    "scale_by_d_model": (MASKS,), "softmax_over_queries": (MASKS,), "fused_qkv_per_head": (HEADS,),
    "reshape_without_transpose": (HEADS,), "view_after_transpose": (HEADS,),
    "cache_sized_with_n_heads": ("shared-kv-heads", "cache-cost"), "tiled_kv_heads": ("shared-kv-heads",),
    "fewer_flops_in_gqa": ("shared-kv-heads",), "groups_mixed_up": ("shared-kv-heads",), "keys_rotated_twice": (ROPE,),
    "positions_restart": (ROPE,), "rope_on_values": (ROPE,), "rope_in_the_other_layout": (ROPE,),
    "causal_mask_without_offset": ("next-token",), "loss_without_shift": ("next-token",),
    "decay_after_the_write": (STATE,), "keys_not_normalised": (STATE,), "state_of_a_chunk_dropped": (STATE,),
    "values_added_up": (STATE,), "write_strength_left_out": (STATE,), "top_k_before_the_mask": ("keep-what-matters",),
}  # fmt: skip


@dataclass(frozen=True)
class Taught:
    """The lessons that a route opens before an item, and the highest level of its questions there."""

    lessons: frozenset[str]
    level: int

    def cards(self, cards: Iterable[spoken.Card]) -> list[spoken.Card]:
        """Return those cards that are explained."""
        return [card for card in cards if card.lessons and self._all(card.lessons) and card.level <= self.level]

    def kinds(self, kinds: Iterable[str]) -> list[str]:
        """Return those kinds of drills that are explained."""
        return [name for name in kinds if self._any(KINDS[name].lessons) and KINDS[name].level <= self.level]

    def mistakes(self, names: Iterable[str]) -> list[str]:
        """Return those mistakes that are explained."""
        return [name for name in names if self._any(MISTAKES[name])]

    def lesson_of(self, names: Iterable[str]) -> str:
        """Return the first of these lessons that was read."""
        return next(name for name in names if name in self.lessons)

    def _all(self, names: tuple[str, ...]) -> bool:
        return self.lessons.issuperset(names)

    def _any(self, names: tuple[str, ...]) -> bool:
        return not self.lessons.isdisjoint(names)


def taught(s: Settings) -> Taught | None:
    """Return what the route of these settings has taught before its open item; None outside a route of lessons."""
    return _taught(s.route, s.route_item)


@lru_cache(maxsize=256)  # more than all items of the routes
def _taught(name: str, number: int) -> Taught | None:
    of = routes.route(name)
    if of is None:
        return None
    earlier = of.items[: of.at(number) - 1]
    lessons = frozenset(of.lessons_before(of.at(number)))
    levels = [item.opened.level for item in earlier if "subject" in item.link]
    levels += [spoken.deck()[item.link["card"]].level for item in earlier if "card" in item.link]
    return Taught(lessons, max(levels, default=1)) if lessons else None
