"""The files in `deploy/` set options that `serve` has, to values that it takes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import click
import pytest
import yaml

from ledger_engine.cli import main
from ledger_engine.cli.serve import serve
from ledger_engine.core.settings import ServeSettings

DEPLOY = Path(__file__).parents[3] / "deploy"


def variables(container: str) -> dict[str, str]:
    """Return the ledger's variables that the Containerfile sets."""
    return dict(re.findall(r"(?m)^ +(LEDGER_\w+)=([^ \n]+)", container))


@pytest.mark.parametrize("where", ["container", "compose"])
def test_each_variable_is_an_option_and_its_value_is_taken(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = variables((DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    assert {"LEDGER_DATABASE", "LEDGER_HOST", "LEDGER_PORT", "LEDGER_INSECURE"} <= set(given)
    if where == "compose":
        service = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["server"]
        given |= {
            name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in service["environment"].items()
        }
        assert service["ports"] == [f"127.0.0.1:8700:{given['LEDGER_PORT']}"]
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    known = {option.envvar for option in serve.params if isinstance(option, click.Option)}
    assert set(given) <= known
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    options = serve.make_context("serve", []).params
    assert (options["host"], str(options["database"])) == ("0.0.0.0", "/data/ledger.db")
    ServeSettings(
        options["database"], options["host"], insecure=options["insecure"], api_key=options["api_key"]
    ).check()


def test_the_container_copies_what_is_not_kept_from_it() -> None:
    root = DEPLOY.parent
    kept = (root / ".dockerignore").read_text(encoding="utf-8").split()
    copied = re.findall(r"(?m)^COPY (?!--)(.+) \S+$", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    names = {name.removeprefix("./") for line in copied for name in line.split()}
    assert {f"!{name}" for name in names} <= set(kept)
    assert all((root / name).exists() for name in names)


def unit_of(name: str) -> ConfigParser:
    """Return a unit of systemd from `deploy/`."""
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / name, encoding="utf-8")
    return unit


def test_the_unit_starts_a_server_with_the_settings_of_the_example() -> None:
    unit = unit_of("ledger.service")
    assert unit["Service"]["RestartPreventExitStatus"] == "2", "wrong usage stays wrong after a restart"
    assert (unit["Service"]["Type"], unit["Service"]["TimeoutStartSec"]) == ("notify", "infinity")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, words[0]) == ("ledger-engine", "serve")
    assert words[0] in main.commands
    assert words[1:] == ["--config", "/etc/ledger/ledger.toml"]
    options = serve.make_context("serve", ["--config", str(DEPLOY / "ledger.toml")]).params
    assert options["database"] == Path("/var/lib", unit["Service"]["StateDirectory"].split()[0], "ledger.db")
    variables = [line for line in unit["Service"] if line.startswith("Environment")]
    assert variables == ["EnvironmentFile"], "a variable would come before the line in ledger.toml"
    made_for = Path("/var/lib", *unit["Service"]["StateDirectory"].split()[-1:])
    assert (options["backup_to"], options["backup_every_s"], options["backup_keep"]) == (made_for, 3600, 24)
    assert (options["port"], options["log_format"], options["metrics"]) == (8700, "json", ("127.0.0.1", 9464))


def test_the_unit_of_litestream_shares_the_servers_user_and_folder() -> None:
    server, litestream = unit_of("ledger.service")["Service"], unit_of("ledger-litestream.service")["Service"]
    assert "User" not in server, "systemd names the user after the unit"
    assert (server["DynamicUser"], litestream["DynamicUser"], litestream["User"]) == ("yes", "yes", "ledger")
    folder, replica = litestream["StateDirectory"].split()
    assert folder == server["StateDirectory"].split()[0]
    settings = yaml.safe_load((DEPLOY / "litestream.yml").read_text(encoding="utf-8"))
    (database,) = settings["dbs"]
    options = serve.make_context("serve", ["--config", str(DEPLOY / "ledger.toml")]).params
    assert (database["path"], database["replica"]["path"]) == (
        str(options["database"]),
        f"/var/lib/{replica}",
    )


def test_the_unit_of_several_servers_sets_ports_and_leaves_the_rest_to_the_file() -> None:
    service = unit_of("postgres/servers.conf")["Service"]
    words = shlex.split(service["ExecStart"].replace("%i", "8701"))[2:]
    assert words[:2] == ["--config", "/etc/ledger/servers.toml"]
    words[1] = str(DEPLOY / "postgres" / "servers.toml")
    options = serve.make_context("serve", words).params
    assert (options["port"], options["metrics"]) == (8701, ("127.0.0.1", 18701))
    assert (options["database"], options["trusted_proxies"]) == ("postgresql://ledger@127.0.0.1/ledger", 2)
    # A variable would win over servers.toml.
    assert list(service) == ["ExecStart", "StateDirectory", "StateDirectoryMode"]
    # The empty StateDirectory= resets the mode to 0755, so the drop-in repeats the mode after it.
    assert service["StateDirectoryMode"] == unit_of("ledger.service")["Service"]["StateDirectoryMode"]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of systemd")
def test_systemd_knows_each_line_of_the_unit_of_several_servers(tmp_path: Path) -> None:
    unit = tmp_path / "ledger@.service"
    drop_in = tmp_path / "ledger@.service.d" / "servers.conf"
    drop_in.parent.mkdir()
    for source, target in (("ledger.service", unit), ("postgres/servers.conf", drop_in)):
        text = (DEPLOY / source).read_text(encoding="utf-8")
        target.write_text(re.sub(r"(?m)^ExecStart=/\S+", f"ExecStart={shutil.which('true')}", text))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    drop_in.write_text(drop_in.read_text().replace("StateDirectory=", "StateFolder="))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "StateFolder" in done.stderr, "the drop-in is read too"


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of systemd")
@pytest.mark.parametrize("name", ["ledger.service", "ledger-litestream.service"])
def test_systemd_knows_each_line_of_the_unit(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    unit = tmp_path / name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={shutil.which('true')}", text))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
