"""MLA's absorbed form against expanding its latents: FLOPs and bytes of one layer, and where they cross."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from attnviz.config import ModelConfig
from attnviz.cost.cached import cached_in_layer
from attnviz.cost.sums import mixers
from attnviz.mechanisms import ABSORBED, Mixer, letter

WORKING_BYTES = 2  # per number of expanded keys and values, which no cache's precision applies to


def absorbed_mixer(model: ModelConfig) -> Mixer | None:
    """Return the first mixer that is absorbed and can be compared with its expanded form; None if there is none."""
    return next((mixer for _, mixer in mixers(model) if mixer.absorbed and not mixer.cannot(ABSORBED)), None)


def why_not_absorbed(model: ModelConfig) -> str:
    """Return why a model's forms cannot be compared, as a sentence of its first mixer; "" where they can."""
    if absorbed_mixer(model):
        return ""
    return next((sentence for _, mixer in mixers(model) if (sentence := mixer.cannot(ABSORBED))), "")


@dataclass(frozen=True)
class TwoForms:
    """One layer of MLA that mixes the last of `n_tokens` tokens, of which it caches the latents."""

    mixer: Mixer
    n_tokens: int

    def flops(self, n_new: int) -> dict[str, int]:
        """Return the FLOPs for so many new tokens in each form: "absorbed", "expanded", "kept"."""
        S, T = letter("S", self.n_tokens), letter("T", n_new)
        return {form: int(flops.value) for form, flops in self.mixer.two_forms(S, T).items()}

    @property
    def first_expanded(self) -> int | None:
        """The fewest new tokens for which expanding takes fewer FLOPs; None if it does for no number of them."""

        def is_cheaper(n_new: int) -> bool:
            flops = self.flops(n_new)
            return flops["expanded"] < flops["absorbed"]

        found = 1 + bisect_left(range(1, self.n_tokens + 1), True, key=is_cheaper)
        return found if found <= self.n_tokens else None

    def bytes_moved(self, bits: float) -> dict[str, int]:
        """Return the bytes in each form: the cache read; expanded, what is expanded is written and read once besides.

        bits: per cached number, its share of scales included. The products' weights, read in both, are not counted.
        """
        read = round(self.n_tokens * int(cached_in_layer(self.mixer).value) * bits / 8)
        numbers = self.mixer.expanded_numbers()
        assert numbers is not None  # it is absorbed
        expanded = self.n_tokens * int(numbers.value) * WORKING_BYTES
        return {"absorbed": read, "expanded": read + 2 * expanded, "kept": expanded}
