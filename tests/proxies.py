"""Runs the proxies, with their files in `deploy/`, in front of servers on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[1] / "deploy"
PROXIES = {
    "nginx": ("nginx-postgres.conf", ["nginx", "-e", "stderr", "-p", "{folder}", "-c", "{file}"]),
    "haproxy": ("haproxy-postgres.cfg", ["haproxy", "-db", "-f", "{file}"]),
    "caddy": ("Caddyfile-postgres", ["caddy", "run", "--adapter", "caddyfile", "--config", "{file}"]),
}


@contextlib.contextmanager
def proxied(name: str, port: int, servers: Sequence[int], folder: Path) -> Iterator[None]:
    """Run a proxy on this port with its file from `deploy/`, in front of the servers on the ports `servers`.

    Skips the test when the program is missing.
    """
    file, (program, *words) = PROXIES[name]
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    text = (DEPLOY / file).read_text(encoding="utf-8")
    text = re.sub(r"(listen |bind |^):?8700", rf"\g<1>127.0.0.1:{port}", text, flags=re.MULTILINE)
    if name == "caddy":
        text = "{\n\tadmin off\n}\n" + text.replace(f"127.0.0.1:{port} {{", f"http://127.0.0.1:{port} {{")
    for number, server in enumerate(servers, 1):
        text = text.replace(f"server-{number}:8700", f"127.0.0.1:{server}")
    if name == "nginx":
        text = (
            f"pid {folder}/pid; daemon off; master_process off; events {{}} http {{ access_log off;"
            f" client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n{text}\n}}"
        )
    configuration = folder / "configuration"
    configuration.write_text(text, encoding="utf-8")
    filled = [word.format(folder=folder, file=configuration) for word in words]
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    proxy = subprocess.Popen([found, *filled], stderr=subprocess.DEVNULL, env=environment)
    try:
        yield
    finally:
        proxy.terminate()
        proxy.wait(60)
