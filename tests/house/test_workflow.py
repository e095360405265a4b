"""The files for contributors agree with the project: supported Pythons, and the tools of the lock."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.house.pages import ROOT


def test_the_workflow_runs_the_checks_on_each_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["linux"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == supported
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_the_hooks_run_the_tools_of_the_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0][
        "hooks"
    ]
    assert [hook["entry"].split()[0] for hook in hooks] == [
        ".venv/bin/ruff",
        ".venv/bin/ruff",
        ".venv/bin/mypy",
    ]
