"""Where the demo data sets are: in the wheel beside this module, in a checkout at the repository's root."""

from pathlib import Path


def names() -> list[str]:
    """The data sets that come with the program, by name (the file's stem), sorted."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def path(name_or_path: str) -> Path:
    """The file of a data set: one of `names()`, or any JSON file by its path.

    A bundled name wins, so that a file which happens to lie in the working directory changes nothing.
    Raises FileNotFoundError, whose text tells the names there are.
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
    return installed if installed.is_dir() else here.parents[3] / "seeds"
