"""Containers that draw nothing: Textual also draws what is covered, and these cover whole screens."""

from __future__ import annotations

from textual.containers import Horizontal, Vertical
from textual.widgets import ContentSwitcher


class Row(Horizontal):
    BLANK = True


class Stack(Vertical):
    BLANK = True


class Switcher(ContentSwitcher):
    BLANK = True
