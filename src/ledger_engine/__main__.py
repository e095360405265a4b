"""Starts `ledger-engine`."""

import signal


def main() -> None:
    """Run the command line.

    While modules are imported, Ctrl-C ends the process at once. With Python's own handler, Ctrl-C would print
    a traceback.
    """
    # A shell script starts a background process (`&`) with SIGINT ignored: leave it ignored.
    takes_signal = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if takes_signal:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ledger_engine.cli import main as run

    if takes_signal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
