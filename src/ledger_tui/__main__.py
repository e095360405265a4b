"""Start `ledger-tui`."""

import signal


def main() -> None:
    """Run the command line.

    While Python imports the modules for it, Ctrl-C ends the process at once, without a traceback.
    """
    # False if nohup or `&` has started the process: then the process ignores SIGINT, and must go on ignoring
    # it
    takes_signal = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if takes_signal:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ledger_tui.cli import main as run

    if takes_signal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
