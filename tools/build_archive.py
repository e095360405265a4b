"""Build dist/ledger.pyz, both programs with all they need in one file, from the lock and the wheel.

The same sources, lock, platform and Python give the same bytes: traces of where and when pip installed
something are removed. The file runs on one minor version of Python, by default the one that builds it, and on
the platform that built it.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from sysconfig import get_platform
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent

THIS_PYTHON = "{}.{}".format(*sys.version_info)

# sqlite-utils depends on pip, for a command that nothing here calls.
UNUSED = ("pip", "pip-*.dist-info")

PACKING = ["--reproducible"]  # shiv's options

# This runs before anything else is imported, and every Python 3 must be able to parse it.
PREAMBLE = """\
import sys
from sysconfig import get_platform

built = {built!r}
here = ("%d.%d" % sys.version_info[:2], get_platform())
if here != built:
    sys.exit("{name} was built for Python %s on %s and cannot run on Python %s on %s." % (built + here))
"""


# The zip's __main__: it runs before shiv unpacks the packages, which would end in a traceback.
MAIN = """\
import os
import sys

root = os.path.expanduser(os.environ.get("SHIV_ROOT") or "~/.shiv")
name = os.path.basename(sys.argv[0]).split(".")[0]
try:
    os.makedirs(root, exist_ok=True)
    unpacked = any(entry.startswith(name) for entry in os.listdir(root))
    if not unpacked and not os.access(root, os.W_OK):
        raise OSError(0, "it cannot be written")
except OSError as error:
    said = (sys.argv[0], root, error.strerror)
    sys.exit("%s cannot unpack itself into %s: %s. Set SHIV_ROOT to another folder." % said)

import _bootstrap

_bootstrap.bootstrap()
"""


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist" / "ledger.pyz").resolve()
    version = sys.argv[2] if len(sys.argv) > 2 else None
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        site = work / "site"
        install_dependencies(site, version)
        install_project(site, work)
        remove_traces(site)
        unfinished = target.with_suffix(".part")
        pack(site, work, unfinished, version or THIS_PYTHON)
        replace_main(unfinished)
        unfinished.replace(target)
    runs_on = version or THIS_PYTHON
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB, for Python {runs_on} on this platform")


def install_dependencies(site: Path, version: str | None = None) -> None:
    """Install what the lock has for this Python, or for another version of it, which need not be here."""
    if version is not None:
        # pip would take the wheels of that version, but judge the lock's conditions by its own.
        python("uv", "pip", "install", "--quiet", "--python", sys.executable, "--python-version", version,
               "--only-binary", ":all:", "--require-hashes", "--no-deps", "--link-mode", "copy",
               "--target", str(site), "--requirement", str(ROOT / "requirements.lock"))  # fmt: skip
        return
    python("pip", "install", "-qq", "--disable-pip-version-check", "--no-compile", "--require-hashes",
           "--no-deps", "--target", str(site), "--requirement", str(ROOT / "requirements.lock"))  # fmt: skip


def install_project(site: Path, work: Path) -> None:
    """Unpack the wheel; pip would record the path it came from."""
    python("hatchling", "build", "--target", "wheel", "--directory", str(work))
    (wheel,) = work.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)


def remove_traces(site: Path) -> None:
    """Remove the scripts, whose first line names this machine's Python, and what is never called."""
    shutil.rmtree(site / "bin", ignore_errors=True)
    for pattern in UNUSED:
        for folder in site.glob(pattern):
            shutil.rmtree(folder)
    (site / ".lock").unlink(missing_ok=True)  # uv's
    for record in site.glob("*.dist-info/RECORD"):
        text = record.read_text(encoding="utf-8")
        record.write_text(re.sub(r"(?m)^(\.\./)*bin/.*\n", "", text), encoding="utf-8")
    for path in site.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


def pack(site: Path, work: Path, target: Path, version: str) -> None:
    preamble = work / "right_python.py"
    preamble.write_text(
        PREAMBLE.format(name=target.with_suffix(".pyz").name, built=(version, get_platform())),
        encoding="utf-8",
    )
    preamble.chmod(0o644)
    python("shiv.cli", *PACKING, "--preamble", str(preamble), "--site-packages", str(site), "--entry-point",
           "ledger_engine.archive:main", "--output-file", str(target))  # fmt: skip


def replace_main(target: Path) -> None:
    """Write the archive again with MAIN; everything else, its first line too, stays as it is."""
    packed = target.read_bytes()
    with ZipFile(io.BytesIO(packed)) as old, target.open("wb") as file:
        file.write(packed[: packed.index(b"\n") + 1])
        with ZipFile(file, "w") as new:
            for entry in old.infolist():
                content = MAIN.encode() if entry.filename == "__main__.py" else old.read(entry)
                new.writestr(entry, content, entry.compress_type)


def python(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONWARNINGS": "ignore"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}\n{module} failed")


if __name__ == "__main__":
    main()
