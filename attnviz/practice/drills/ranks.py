"""Draw from named candidates by hash, so that an added candidate changes only the draws that it wins.

`random.choice` would change nearly every draw, because the index of a candidate depends on how many there are.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from hashlib import blake2b


def rank(*parts: object) -> int:
    """Return a hash of the parts, 64 bits, the same in every process, unlike Python's hash()."""
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest())


def seed_of(*parts: object) -> int:
    """Return a question's seed from a hash of the parts: below a million, since links and ids contain it."""
    return rank(*parts) % 10**6


def ranked(rng: random.Random, names: Collection[str]) -> list[str]:
    """Return the names in random order. An added name is inserted; the order of the others stays."""
    seed = rng.getrandbits(64)  # one draw whatever the number of names, so that the draws after it stay
    return sorted(names, key=lambda name: rank(seed, name))


def draw(rng: random.Random, names: Collection[str]) -> str:
    """Draw one of the names, each with the same probability."""
    return ranked(rng, names)[0]
