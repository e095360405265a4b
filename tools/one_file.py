"""The entry point of the executable that `tools/build_binary.py` makes.

Both programs start processes of their own with `sys.executable -m …` or `sys.executable -P -c …`. In the
executable, `sys.executable` is the executable itself and not a Python. So `main` does what Python would do
with these command lines.
"""

import sys


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["-m"]:
        del sys.argv[1:3]
        if words[1] == "ledger_engine":
            from ledger_engine.__main__ import main as program
        else:
            from ledger_tui.__main__ import main as program
        program()
    elif words[:2] == ["-P", "-c"]:  # the sender of webhooks
        del sys.argv[1:4]
        exec(words[2], {"__name__": "__main__"})
    else:
        from ledger_engine.archive import main as either

        either()


if __name__ == "__main__":
    main()
