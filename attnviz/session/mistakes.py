"""Ids of the mistakes, the names of their files, and their codes in addresses. Unlike their registry, imports no torch.

An id names the mistake, which is to be found on the page; so addresses have a code, a part of the id's digest, which
stays the same when mistakes are added. Addresses with ids are older, or from a place that names the mistake anyway.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

CATALOGUE = Path(__file__).parents[1] / "mistakes" / "catalogue"
MISTAKES = tuple(sorted(path.stem for path in CATALOGUE.glob("[a-z]*.py")))
CODES = {name: sha256(name.encode()).hexdigest()[:5] for name in MISTAKES}
_IDS = {code: name for name, code in CODES.items()}


def with_id(link: Mapping[str, str]) -> dict[str, str]:
    """Return a link with a mistake's code replaced by its id.

    A link with the id and without `hunt` was made when titles and repairs were shown by default; so they are.
    """
    if link.get("mistake") in MISTAKES:
        return {"hunt": "0", **link}
    return {name: _IDS.get(written, written) if name == "mistake" else written for name, written in link.items()}
