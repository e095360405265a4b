"""Build dist/ledger, both programs in one executable file that needs no Python, with PyInstaller.

It is made of the same folder as the archive: the packages of the lock and the project's wheel. It runs on the
platform that built it, with that one's C library or a newer one.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from build_archive import ROOT, install_dependencies, install_project, remove_traces

# What PyInstaller does not find by following imports: data files, and modules that are imported by a name.
WITH_DATA = ("ledger_client", "ledger_engine", "ledger_tui", "textual", "textual_serve", "iso4217", "rich")
BY_NAME = ("hypercorn", "quart", "keyring.backends", "sqlite_utils", "argon2", "uvloop", "aiohttp")
# Whose version or entry points are asked for while running.
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
    # The folder comes before the checkout that this Python has installed, which lacks the demo data.
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nPyInstaller failed")


if __name__ == "__main__":
    main()
