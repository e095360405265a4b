"""`ledger-engine checkpoint`, `proof`, `check-proof`, `log-key` and `witness`: the transparency log."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import LedgerSource, print_json, say
from ledger_engine.core.clock import iso
from ledger_engine.core.errors import NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit

if TYPE_CHECKING:
    from ledger_engine.log.keys import PublicKey
    from ledger_engine.log.notes import VerifierKey


def _key(text: str) -> VerifierKey:
    """Return the verifier key in a text: `NAME+ID+KEY`."""
    # Imported here and in the functions below, because only these commands need the cryptographic library.
    from ledger_engine.log.notes import BadNote, VerifierKey

    try:
        return VerifierKey.parse(text)
    except BadNote as error:
        raise ValueError(f"{error}.") from error


def _watched_log(text: str) -> tuple[str, VerifierKey]:
    """Return the origin and the key in a text `ORIGIN=KEY`; they name a log that a witness watches."""
    from ledger_engine.log.notes import LOG

    origin, _, key_text = text.partition("=")
    key = _key(key_text)
    if key.kind != LOG:
        raise ValueError(f"the key of {key.name} is not a log's key.")
    return origin, key


_KEY = options.ParsedText("vkey", _key)


@click.command()
@options.ledger(options.mode, options.project)
def checkpoint(ledger: LedgerSource) -> None:
    """Print the last checkpoint of a log, with the witnesses' signatures so far."""
    from ledger_engine.log import notes, stored
    from ledger_engine.log.checkpoints import Checkpoint

    note = ledger.read(lambda unit: stored.checkpoint_note(unit, ledger.tenant(unit)))
    if not ledger.as_json:
        click.echo(note, nl=False)
        return
    newest = Checkpoint.parse(note)
    print_json(
        {"origin": newest.origin, "size": newest.size, "root": notes.encode(newest.root), "checkpoint": note}
    )


@click.command()
@click.argument("id")
@click.option(
    "--entry",
    type=options.FilePath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the proven entry to FILE, for check-proof; only you can read FILE.",
)
@options.ledger(with_json=False)
def proof(ledger: LedgerSource, id: str, entry: Path | None) -> None:
    """Print the proof that an event or a transaction is in the log; ID names the event or the transaction."""
    from ledger_engine.log import stored

    def find(unit: Unit) -> tuple[str, bytes]:
        table = "transactions" if id.startswith("txn_") else "events"
        row = unit.first(
            f"SELECT b.project, b.livemode FROM books AS b JOIN {table} AS o"
            " ON o.book = b.book AND o.id = :id",
            {"id": id},
        )
        if row is None:
            raise NotFound(table.removesuffix("s"), id)
        tenant = Tenant(row["project"], bool(row["livemode"]))
        event = stored.event_of_transaction(unit, tenant, id) if table == "transactions" else id
        return stored.proof_of_event(unit, tenant, event), stored.bytes_to_check(unit, tenant, event)

    text, content = ledger.read(find)
    if entry is not None:
        with open(entry, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            # `opener` sets the permissions of a new file only. Set the permissions of an existing file too,
            # but do not change the permissions of a device.
            if entry.is_file():
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
    click.echo(text, nl=False)


@click.command("check-proof")
@click.argument("proof", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("entry", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--log-key", type=_KEY, required=True, help="The key of the log, as log-key show prints it.")
@click.option(
    "--witness-key",
    "witness_keys",
    type=_KEY,
    multiple=True,
    help="The key of a witness that must also have signed the proof; may be given more than once.",
)
def check_proof(
    proof: Path, entry: Path, log_key: VerifierKey, witness_keys: tuple[VerifierKey, ...]
) -> None:
    """Check without a ledger that PROOF proves ENTRY.

    ENTRY is a file with an event as webhooks deliver it, or the file that `proof --entry` wrote.
    """
    from ledger_engine.log.checkpoints import Proof
    from ledger_engine.log.notes import BadNote
    from ledger_engine.log.tree import BadProof

    try:
        # Read bytes: the format of proofs forbids CRLF and CR, but reading text turns both into newlines.
        claim = Proof.parse(proof.read_bytes().decode())
        if claim.checkpoint.origin != log_key.name:
            raise click.UsageError(
                f"The proof is for the log {claim.checkpoint.origin}, but the key belongs to {log_key.name}."
            )
        times = claim.check(entry.read_bytes(), log_key, witness_keys)
    except (BadNote, BadProof) as error:
        raise click.ClickException(f"Not proven: {error}.") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"Not proven: {proof} is not UTF-8.") from error
    say(f"Proven: entry {claim.index} of {claim.checkpoint.size} in {claim.checkpoint.origin}.")
    for name, seconds in times.items():
        say(f"{name} has signed the checkpoint at {iso(seconds * 1000)}.")


@click.group("log-key")
def log_key() -> None:
    """Show the key that signs the logs, or make a new one."""


@log_key.command()
@options.ledger(options.mode, options.project)
def show(ledger: LedgerSource) -> None:
    """Print the public key that checks the proofs of a log; earlier keys go to stderr."""
    _print_keys(ledger)


@log_key.command()
@click.option("--yes", is_flag=True, help="Make the new key without asking.")
@options.ledger(options.mode, options.project)
def rotate(ledger: LedgerSource, yes: bool) -> None:
    """Make a new key for all logs, and print it. A running server uses the new key within a second.

    The command asks first, because it destroys the old secret key: nothing can be signed with that key again.
    Everyone who checks proofs needs the new public key, and a witness signs nothing until you start it with
    the new public key. Proofs that the old key signed stay valid; check them with the old public key.
    """
    from ledger_engine.events.webhooks.signing import Seal
    from ledger_engine.log import keys, notes

    ledger.read(keys.require)
    if not yes:
        say(
            "This destroys the key that signs all logs of this ledger; nothing can be signed with it again."
            " Give the new key to everyone who checks proofs, and to each witness: until then they refuse the"
            " new checkpoints. Proofs that the old key signed stay valid.",
            err=True,
        )
        click.confirm("Make a new key?", abort=True, err=True)
    private, seal = notes.new_private(), Seal.from_environment()
    ledger.write(partial(keys.rotate, private=private, seal=seal))
    _print_keys(ledger)


@click.command()
@click.option(
    "--listen", metavar="HOST:PORT", required=True, help="The address to listen on; port 0 takes a free port."
)
@click.option(
    "--state",
    type=options.FilePath(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder of the witness's key and signatures; no other process may use it.",
)
@click.option(
    "--watch",
    "logs",
    type=options.ParsedText("origin=vkey", _watched_log),
    multiple=True,
    required=True,
    help="A log and its key; repeat it for several logs, or for several keys of one log.",
)
def witness(listen: str, state: Path, logs: tuple[tuple[str, VerifierKey], ...]) -> None:
    """Sign the checkpoints of another ledger's log, each only if it continues the last signed checkpoint.

    The command prints the address and the key of the witness. Start the other ledger's server with them, as
    --witness and --witness-key.
    """
    from ledger_engine.log import witness as serving
    from ledger_engine.log.notes import BadNote

    host, _, port = listen.rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise click.UsageError(f"--listen {listen!r} must be like 127.0.0.1:8701.")
    keys_of_log: dict[str, list[VerifierKey]] = {}
    for origin, key in logs:
        keys_of_log.setdefault(origin, []).append(key)
    try:
        own_witness = serving.Witness(state, keys_of_log)
    except (BadNote, ValueError) as error:
        raise click.ClickException(f"The key in {state} cannot be read: {error}.") from error
    try:
        server = serving.listen(own_witness, host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        raise click.ClickException(f"Cannot listen on {listen}: {error.strerror}.") from error
    stops = (signal.SIGTERM, signal.SIGINT)
    # Block the signals before the thread starts, because a thread inherits the block. So only `sigwait`
    # receives these signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(f"Listening on http://{host}:{server.server_port}")
    say(f"Witness key: {own_witness.verifier}")
    signal.sigwait(stops)
    server.shutdown()
    server.server_close()


def _print_keys(ledger: LedgerSource) -> None:
    """Print the log's public key, and its earlier keys on stderr; with --json, print all keys as a list."""
    from ledger_engine.log import keys, stored

    def find(unit: Unit) -> list[PublicKey]:
        keys.require(unit)
        return keys.public(unit, stored.of_tenant(unit, ledger.tenant(unit)).book)

    rows = ledger.read(find)
    if ledger.as_json:
        print_json(
            [
                {
                    "key": str(key.verifier),
                    "created": iso(key.created),
                    "retired_at": None if key.retired_at is None else iso(key.retired_at),
                }
                for key in rows
            ]
        )
        return
    current, *earlier = rows
    say(str(current.verifier))
    for key in earlier:
        assert key.retired_at is not None
        say(f"until {iso(key.retired_at)}: {key.verifier}", err=True)
