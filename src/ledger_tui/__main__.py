"""Start `ledger-tui`."""

import signal


def main() -> None:
    """Run the command line.

    The signal of Ctrl-C ends the process while modules are imported: Python would print a traceback.
    """
    takes_signal = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # nohup and `&` ignore it
    if takes_signal:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ledger_tui.cli import main as run

    if takes_signal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
