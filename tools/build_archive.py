"""Build dist/ledger.pyz: one file with both programs, the packages of requirements.lock and this project.

`build_archive.py [TARGET [VERSION]]`. The same sources, lock, platform and Python give the same bytes,
because the build removes the traces of the place and time of pip's installation. The file runs only on the
platform that built it, and only on one minor version of Python: VERSION, or the version that builds the file.
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

# The archive runs this code before it imports anything else. Every Python 3 must be able to parse the code,
# so that a wrong version prints this message and not a traceback.
PREAMBLE = """\
import sys
from sysconfig import get_platform

built = {built!r}
here = ("%d.%d" % sys.version_info[:2], get_platform())
if here != built:
    sys.exit("{name} was built for Python %s on %s and cannot run on Python %s on %s." % (built + here))
"""


# The zip's __main__. It runs before shiv unpacks the packages, and checks that shiv can write to its folder.
# Without this check shiv would end in a traceback.
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
    """Install the packages of the lock for this Python, or for another `version`.

    This machine does not need a Python of the other version.
    """
    if version is not None:
        # pip would install the wheels for the other version, but evaluate the lock's environment markers with
        # its own version. uv evaluates the markers with the other version.
        python("uv", "pip", "install", "--quiet", "--python", sys.executable, "--python-version", version,
               "--only-binary", ":all:", "--require-hashes", "--no-deps", "--link-mode", "copy",
               "--target", str(site), "--requirement", str(ROOT / "requirements.lock"))  # fmt: skip
        return
    python("pip", "install", "-qq", "--disable-pip-version-check", "--no-compile", "--require-hashes",
           "--no-deps", "--target", str(site), "--requirement", str(ROOT / "requirements.lock"))  # fmt: skip


def install_project(site: Path, work: Path) -> None:
    """Build the project's wheel and unpack it. pip is not used, because it would record the wheel's path."""
    python("hatchling", "build", "--target", "wheel", "--directory", str(work))
    (wheel,) = work.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)


def remove_traces(site: Path) -> None:
    """Remove everything that differs between machines, and the packages in UNUSED.

    The scripts in bin/ are removed, because their first line names this machine's Python.
    """
    shutil.rmtree(site / "bin", ignore_errors=True)
    for pattern in UNUSED:
        for folder in site.glob(pattern):
            shutil.rmtree(folder)
    (site / ".lock").unlink(missing_ok=True)  # uv makes this file
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
    """Replace the archive's `__main__.py` by MAIN. The first line and all other entries stay as they are."""
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
