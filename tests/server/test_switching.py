"""The process switches threads sooner than Python does by default."""

import sys

import pytest

from attnviz.server import switching


def test_threads_switch_sooner_than_by_default():
    before = sys.getswitchinterval()
    try:
        switching.start()
        assert sys.getswitchinterval() == pytest.approx(switching.SECONDS) and switching.SECONDS < before
    finally:
        sys.setswitchinterval(before)
