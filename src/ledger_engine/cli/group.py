"""How commands end: 0 for done, 1 for what went wrong and 2 for a wrong call, told in one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from ledger_engine.core.errors import LedgerError
from ledger_engine.core.printable import printable


class OneLineErrors(click.Group):
    """A group of commands whose errors are one line each; click's own take three."""

    def main(self, args: Sequence[str] | None = None, *names: Any, **settings: Any) -> NoReturn:
        settings["standalone_mode"] = False
        try:
            status = super().main(args, *names, **settings)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.ClickException as error:
            _end(error.format_message(), error.exit_code)
        except click.Abort:
            _end("Stopped.", 1)
        except BrokenPipeError:
            # Whoever read our output has seen enough.
            _say_no_more()
            sys.exit(1)
        except LedgerError as error:
            _end(error.message, 1)
        except UnicodeEncodeError as error:
            # Python keeps the bytes of an argument that are not UTF-8 as halves of surrogate pairs.
            if error.encoding == "utf-8":
                _end("An argument is not UTF-8.", 2)
            _end(f"The output cannot be written: {error.encoding} has not all its characters.", 1)
        except OSError as error:
            place = "" if error.filename is None else f"{error.filename}: "
            _end(str(error) if error.strerror is None else f"{place}{error.strerror}", 1)
        sys.exit(status if isinstance(status, int) else 0)


def _end(message: str, status: int) -> NoReturn:
    click.echo(f"ledger-engine: {printable(' '.join(message.split()))}", err=True)
    try:
        sys.stdout.flush()
    except OSError:
        _say_no_more()
    sys.exit(status)


def _say_no_more() -> None:
    """Nothing gets through to stdout: let Python, which tries once more at its end, not fail there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
