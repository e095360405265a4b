"""Build dist/VERSION: every file of a release, with checksums (CONTRIBUTING.md#a-release).

The same commit, platform and Python give the same bytes. The build takes some minutes, and downloads wheels
for other versions of Python from the package index.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ledger_client", "ledger_engine", "ledger_tui")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# deploy/Containerfile, and the files and folders that it copies into the image.
IMAGE = (
    "deploy/Containerfile",
    "requirements-engine.lock",
    "requirements-build.lock",
    "docs/interface.md",
    "seeds",
    "src/ledger_client",
    "src/ledger_engine",
)


def main() -> None:
    version = ready_version()
    target = ROOT / "dist" / version
    if target.exists():
        sys.exit(f"{target} exists. Remove it to build the release again.")
    # The builders write SOURCE_DATE_EPOCH as the time of each file. PYTHONHASHSEED fixes the order in which
    # Python iterates over a set.
    os.environ |= {
        "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct"),
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
    }
    unfinished = target.with_name(f".{version}")
    unfinished.mkdir(parents=True, exist_ok=True)
    for old in unfinished.iterdir():
        old.unlink()
    python("-m", "hatchling", "build", "--directory", unfinished, "--target", "sdist")
    for package in PACKAGES:
        folder = ROOT / "src" / package
        python("-m", "hatchling", "build", "--directory", unfinished, "--target", "wheel", folder=folder)
    for python_version in PYTHONS:
        python("tools/build_archive.py", unfinished / f"ledger-{python_version}.pyz", python_version)
    python("tools/build_binary.py", unfinished / "ledger")
    context = unfinished / f"ledger-image-{version}.tar"
    git("archive", "--format=tar", f"--prefix=ledger-{version}/", f"--output={context}", "HEAD", *IMAGE)
    bill = unfinished / f"ledger-{version}.cdx.json"
    python("-m", "cyclonedx_py", "requirements", "--output-reproducible", "--short-PURLs", "--of", "JSON",
           "--pyproject", "pyproject.toml", "--output-file", bill, "requirements.lock")  # fmt: skip
    list_wheels(bill, sorted(unfinished.glob("*.whl")))
    files = sorted(unfinished.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (unfinished / "SHA256SUMS").write_text(sums, encoding="utf-8")
    unfinished.rename(target)
    print(sums + f"The release is in {target.relative_to(ROOT)}.")


def ready_version() -> str:
    """Return the version to release. Exits with a message if CHANGELOG.md or the tree is not ready."""
    text = (ROOT / "src" / "ledger_engine" / "__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE) is None:
        sys.exit(f"CHANGELOG.md has no line `## [{version}] - DATE`.")
    if git("status", "--porcelain"):
        sys.exit("There are changes that are not committed.")
    return version


def list_wheels(bill: Path, wheels: list[Path]) -> None:
    """Add the wheels with their checksums to a bill of materials."""
    content = json.loads(bill.read_bytes())
    for wheel in wheels:
        name, version = wheel.name.replace("_", "-").rsplit("-", 4)[:2]
        checksum = {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
        content["components"].append(
            {"bom-ref": wheel.name, "hashes": [checksum], "name": name, "type": "library", "version": version}
        )
        content["dependencies"].append({"ref": wheel.name})
    bill.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def git(*words: str | Path) -> str:
    """Run git, and return its output."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def python(*words: str | Path, folder: Path = ROOT) -> None:
    """Run this Python in a folder. If the command fails, exit with the command's output."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{words} failed.")
    print(done.stdout, end="", flush=True)


if __name__ == "__main__":
    main()
