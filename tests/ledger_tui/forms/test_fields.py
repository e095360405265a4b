"""The keys of an invoice's lines do nothing if there is no line to go to, to remove or to correct."""

from __future__ import annotations

import json

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Input

from ledger_tui.forms.fields import LinesField

LINES = [["Beans", "1", "1.00"], ["Mug", "2", "0.50"]]


class LinesApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.field = LinesField(json.dumps(LINES), "an amount, or lines", lambda: "EUR", id="lines")

    def compose(self) -> ComposeResult:
        yield Input(id="customer")
        yield self.field

    def get_css_variables(self) -> dict[str, str]:
        return {**super().get_css_variables(), "muted": "#888888"}


@pytest.mark.slow
async def test_up_and_down_stay_in_the_column_and_stop_at_the_first_and_the_last_line() -> None:
    app = LinesApp()
    async with app.run_test() as pilot:
        quantities = [*app.field.query(".quantity").results(Input)]
        quantities[0].focus()
        await pilot.pause()
        for step, at in ((-1, 0), (1, 1), (1, 1), (-1, 0)):
            app.field.action_step(step)
            await pilot.pause()
            assert app.focused is quantities[at]


@pytest.mark.slow
async def test_beside_the_lines_no_line_is_removed_and_no_other_is_focused() -> None:
    app = LinesApp()
    async with app.run_test() as pilot:
        customer = app.query_one("#customer", Input)
        customer.focus()
        await pilot.pause()
        await app.field.remove_row()
        app.field.action_step(1)
        await pilot.pause()
        assert app.focused is customer
        assert json.loads(app.field.value) == LINES


async def test_a_line_at_fault_is_focused_and_blank_and_right_ones_are_passed_over() -> None:
    app = LinesApp()
    async with app.run_test() as pilot:
        assert app.field.focus_fault() is False
        await app.field.add_row()  # a blank one
        assert app.field.focus_fault() is False
        amount = [*app.field.query(".unit-amount").results(Input)][1]
        amount.value = "cheap"
        assert app.field.focus_fault() is True
        await pilot.pause()
        assert app.focused is amount
