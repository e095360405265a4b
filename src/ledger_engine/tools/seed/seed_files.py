"""The paths of the demo data sets: beside this module in the wheel, at the root of a checkout."""

from pathlib import Path


def names() -> list[str]:
    """Return the names of the included data sets (the files' stems), sorted."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def path(name_or_path: str) -> Path:
    """Return the path of a data set: one of `names()`, or any JSON file by its path.

    An included name comes first, so that a file that happens to be in the working directory has no effect.
    Raises FileNotFoundError, whose message lists the names.
    """
    bundled = _folder() / f"{name_or_path}.json"
    if name_or_path in names():
        return bundled
    file = Path(name_or_path).expanduser()
    if file.is_file():
        return file
    raise FileNotFoundError(
        f"There is no data set {name_or_path!r}: give a JSON file or one of {', '.join(names())}."
    )


def _folder() -> Path:
    here = Path(__file__).resolve()
    installed = here.with_name("seeds")
    return installed if installed.is_dir() else here.parents[4] / "seeds"
