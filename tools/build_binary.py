"""Build dist/ledger, both programs in one executable file that needs no Python, with PyInstaller.

The executable contains the same packages as the archive: those of requirements.lock, and the project's wheel.
It runs on the platform that built it, with the C library of the building machine or a newer one.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from build_archive import ROOT, install_dependencies, install_project, remove_traces

# PyInstaller follows `import` statements. It does not find the data files of these packages (WITH_DATA), or
# the modules that a program imports by a name in a string (BY_NAME).
WITH_DATA = ("ledger_client", "ledger_engine", "ledger_tui", "textual", "textual_serve", "iso4217", "rich")
BY_NAME = ("hypercorn", "quart", "keyring.backends", "sqlite_utils", "argon2", "uvloop", "aiohttp")
# Programs ask for the version or the entry points of these packages while they run.
WITH_METADATA = ("keyring", "quart", "flask", "werkzeug", "sqlite-utils", "textual", "textual-serve", "h11")
UNUSED = ("pip", "tkinter", "setuptools")


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist" / "ledger").resolve()
    with TemporaryDirectory() as folder:
        work = Path(folder)
        site = work / "site"
        install_dependencies(site)
        install_project(site, work)
        remove_traces(site)
        build(site, work, target)
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB, for this platform")


def build(site: Path, work: Path, target: Path) -> None:
    options = [f"--collect-all={name}" for name in WITH_DATA]
    options += [f"--collect-submodules={name}" for name in BY_NAME]
    options += [f"--copy-metadata={name}" for name in WITH_METADATA]
    options += [f"--exclude-module={name}" for name in UNUSED]
    command = [
        *(sys.executable, "-m", "PyInstaller", "--onefile", "--noconfirm", "--clean", "--log-level=ERROR"),
        *(f"--name={target.name}", f"--distpath={target.parent}", f"--workpath={work / 'build'}"),
        *(f"--specpath={work}", f"--paths={site}", *options, str(ROOT / "tools" / "one_file.py")),
    ]
    # This Python has the checkout installed, which lacks the demo data. `site` must come before the checkout.
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nPyInstaller failed")


if __name__ == "__main__":
    main()
