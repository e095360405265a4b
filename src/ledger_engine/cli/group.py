"""How commands end: 0 for done, 1 for what went wrong and 2 for a wrong call, told in one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from ledger_engine.errors import LedgerError


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
            # Whoever read our output has seen enough; nothing more can be said there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except LedgerError as error:
            _end(error.message, 1)
        except OSError as error:
            _end(str(error) if error.strerror is None else f"{error.filename or ''}: {error.strerror}", 1)
        sys.exit(status if isinstance(status, int) else 0)


def _end(message: str, status: int) -> NoReturn:
    click.echo(f"ledger-engine: {' '.join(message.split())}", err=True)
    sys.exit(status)
