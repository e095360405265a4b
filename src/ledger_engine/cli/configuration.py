"""Options that can also be set by environment variables and by a TOML file.

The command line comes before the environment, and the environment before the file. The variable of
`--auth-rate-limit` is LEDGER_AUTH_RATE_LIMIT, and its line in the file `auth-rate-limit = "20/5"`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_LINES = "ledger_engine.lines_of_file"  # in a context's meta: from the name of a parameter to its line


class TrueOrFalse(click.types.BoolParamType):
    """The value of a flag where a variable sets it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return whether the flag is set."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{str(value)!r} must be true or false.", param, ctx)


class Configured(click.Command):
    """A command whose options can be set in all three ways.

    An option may have a variable of its own; hidden options and `--config` are no lines of the file. An error
    names the variable, or the file and line, that the bad value came from.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for option in self.params:
            if isinstance(option, click.Option) and not option.hidden and option.envvar is None:
                option.envvar = f"LEDGER_{line_name(option).replace('-', '_').upper()}"
                if option.is_flag:
                    option.type = TrueOrFalse()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read all options. Raises UsageError that names where a bad value was set."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            if isinstance(error.param, click.Option):
                error.param_hint = _place(ctx, error.param)
            raise


def line_name(option: click.Option) -> str:
    """Return the name that an option has in the file: the one on the command line, without its dashes."""
    return max(option.opts, key=len).removeprefix("--")


def read_file(ctx: click.Context, param: click.Parameter, file: Path | None) -> None:
    """Take the options in the file as those to use where neither command line nor environment set one.

    The callback of `--config`. Raises UsageError that names the file and the line.
    """
    if file is None:
        return
    try:
        text = file.read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{file} is not TOML: {error}.") from None
    options = {
        line_name(option): option
        for option in ctx.command.params
        if isinstance(option, click.Option) and not option.hidden and option is not param
    }
    values, lines = {}, {}
    for name, value in given.items():
        place = f"{file}, line {_line_of(name, text)}"
        if name not in options:
            near = difflib.get_close_matches(name.replace("_", "-"), options, n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            raise click.UsageError(f"{place}: {name} is not an option of {ctx.command.name}{hint}")
        option = options[name]
        key = str(option.name)
        values[key], lines[key] = _value_of(option, value, file, place), place
    ctx.default_map = values
    ctx.meta[_LINES] = lines


def _value_of(option: click.Option, value: Any, file: Path, place: str) -> Any:
    """Return a value of the file in the form in which the option takes it. Raises UsageError."""
    many = [value] if option.multiple and not isinstance(value, list) else value
    if option.multiple:
        wanted, is_right = "texts in quotes", all(isinstance(each, str) for each in many)
    elif option.is_flag:
        wanted, is_right = "true or false", isinstance(value, bool)
    elif isinstance(option.type, click.IntRange):
        wanted, is_right = "a number without quotes", isinstance(value, int) and not isinstance(value, bool)
    else:
        wanted, is_right = "a text in quotes", isinstance(value, str)
    if not is_right:
        raise click.UsageError(f"{place}: {line_name(option)} must be {wanted}")
    if isinstance(option.type, click.Path):
        return str(file.parent / value)  # relative to the file, wherever the command is run
    return many if option.multiple else value


def _line_of(name: str, text: str) -> int:
    """Return the number of the line that sets `name`, 1 where that is not found."""
    found = re.search(rf"(?m)^[ \t]*\[*[ \t]*[\"']?{re.escape(name)}\b", text)
    return 1 if found is None else text.count("\n", 0, found.start()) + 1


def _place(ctx: click.Context, option: click.Option) -> str:
    """Return where the value of an option was set."""
    source = ctx.get_parameter_source(str(option.name))
    if source is ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    if source is ParameterSource.DEFAULT_MAP:
        return f"{line_name(option)} ({ctx.meta[_LINES][option.name]})"
    return f"'{max(option.opts, key=len)}'"
