"""Start `ledger-tui`."""

import signal


def main() -> None:
    """Run the command line.

    While it imports modules, Ctrl-C ends the process at once, without Python's traceback.
    """
    # False if nohup or `&` has started the process: they make it ignore SIGINT, and this must not change that
    takes_signal = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if takes_signal:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ledger_tui.cli import main as run

    if takes_signal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
