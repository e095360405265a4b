"""Install the packages of lock files, with a progress bar in a terminal: `install.py WHAT LOCK…` (Makefile).

The program runs before any package is installed, so it uses the standard library alone. The first half of the
bar shows how many packages pip has collected, and the second half how many pip has installed.
"""

import re
import select
import subprocess
import sys
import sysconfig
from pathlib import Path

BAR = 40
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off")


def main() -> None:
    what, *locks = sys.argv[1:]
    pinned = re.findall(r"(?m)^[\w.-]+(?=\S*==)", "".join(Path(lock).read_text("utf-8") for lock in locks))
    print(
        f"Installing {what}: up to {len({*pinned})} packages. It takes a minute or two, once.",
        flush=True,
    )
    command = [*PIP, "--require-hashes", *(word for lock in locks for word in ("-r", lock))]
    site = Path(sysconfig.get_path("purelib"))
    before = installed(site)
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as pip:
        assert pip.stdout is not None
        while pip.poll() is None:
            if select.select([pip.stdout], [], [], 0.2)[0]:
                said += pip.stdout.read1().decode(errors="replace")
            collected = len(re.findall(r"(?m)^(?:Collecting|Requirement already)", said))
            show((collected + installed(site) - before) / (2 * len(pinned)))
        said += pip.stdout.read().decode(errors="replace")
    if pip.returncode:
        sys.exit(
            f"{said}\npip could not install the packages. When it can reach them, the same command goes on."
        )
    show(1)
    print(flush=True)


def installed(site: Path) -> int:
    """Return how many packages are installed."""
    return len([*site.glob("*.dist-info")])


def show(share: float) -> None:
    """Draw the bar in the same line again."""
    if sys.stdout.isatty():
        done = min(BAR, int(share * BAR))
        print(f"\r[{'#' * done}{'.' * (BAR - done)}]", end="", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The same command goes on from here.")
