"""Start `ledger-tui`."""

import signal


def main() -> None:
    """Run the command line.

    While Python imports the modules of the command line, Ctrl-C ends the process without a traceback.
    """
    # False if nohup or `&` has started the process. Such a process ignores SIGINT, and must go on ignoring
    # this signal.
    takes_signal = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if takes_signal:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ledger_tui.cli import main as run

    if takes_signal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
