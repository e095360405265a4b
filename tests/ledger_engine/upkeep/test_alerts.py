"""The alerts of `deploy/alerts.yaml`: when promtool lets each one fire, and the page with a row for each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.house.pages import ROOT

ALERTS = ROOT / "deploy" / "alerts.yaml"


def test_the_page_about_production_on_postgresql_has_a_row_for_each_alert() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    page = (ROOT / "docs" / "production-postgresql.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"(?m)^\|.+\|$", page))
    without = {rule["alert"] for rule in group["rules"] if f"`{rule['alert']}`" not in rows}
    assert without == {"LedgerBackupOld", "LedgerBackupFails", "LedgerLogGrows"}, "these are for SQLite"


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool; on Debian and Ubuntu: apt install prometheus"
)


@pytest.mark.process
@needs_promtool
def test_prometheus_accepts_the_alerts_and_what_the_dashboard_asks(tmp_path: Path) -> None:
    panels = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))["panels"]
    # Grafana puts a time and the servers that are chosen in the place of its variables.
    asked = [
        target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel["targets"]
    ]
    records = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked)]
    of_panels = tmp_path / "panels.yaml"
    of_panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", ALERTS, of_panels], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


_SERVER, _ON_POSTGRES = 'up{job="ledger", instance="a"}', 'ledger_storage_older{job="ledger", instance="a"}'
_DUMP, _CERTIFICATE = "ledger_dump_last_timestamp_seconds", "ledger_certificate_end_timestamp_seconds"
_SERVERS_DOWN = "The metrics of every server cannot be read; does the server run?"
_SCRIPT_MISSING = (
    "The proxies, the age of a dump or the end of a certificate are not measured;"
    " metrics.sh writes no new values."
)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(
    ("series", "alert", "summary"),
    [
        ([_SERVER, _ON_POSTGRES], "LedgerMetricsMissing", _SCRIPT_MISSING),
        ([_SERVER, _ON_POSTGRES, _DUMP], "LedgerMetricsMissing", _SCRIPT_MISSING),
        ([_SERVER, _ON_POSTGRES, _DUMP, _CERTIFICATE], "LedgerMetricsMissing", None),
        ([_SERVER, 'ledger_wal_bytes{job="ledger", instance="a"}'], "LedgerMetricsMissing", None),
        ([_SERVER], "LedgerDown", None),
        (['up{job="node", instance="a"}'], "LedgerDown", _SERVERS_DOWN),
    ],
)
def test_an_alert_reports_metrics_that_nobody_writes(
    series: list[str], alert: str, summary: str | None, tmp_path: Path
) -> None:
    labels = {
        "LedgerMetricsMissing": {"severity": "ticket"},
        "LedgerDown": {"severity": "page", "job": "ledger"},
    }
    fired = {"exp_labels": labels[alert], "exp_annotations": {"summary": summary}}
    check_alert(alert, dict.fromkeys(series, 1), [fired] if summary else [], tmp_path)


@pytest.mark.process
@needs_promtool
def test_an_alert_reports_a_script_that_has_stopped(tmp_path: Path) -> None:
    series = dict.fromkeys((_SERVER, _ON_POSTGRES, _DUMP, _CERTIFICATE), 1)
    written = 'node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/ledger.prom"}'
    check_alert("LedgerMetricsMissing", {**series, written: 3600 - 60}, [], tmp_path)
    labels = {"severity": "ticket", "file": "/var/lib/prometheus/node-exporter/ledger.prom"}
    fired = {"exp_labels": labels, "exp_annotations": {"summary": _SCRIPT_MISSING}}
    check_alert("LedgerMetricsMissing", {**series, written: 60}, [fired], tmp_path)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize("has_notice", [0, 1])
def test_an_alert_reports_a_notice(has_notice: int, tmp_path: Path) -> None:
    summary = "a has a notice that a person must read: see /api/health and docs/troubleshooting.md#notices."
    fired = {"exp_labels": {"severity": "ticket", "instance": "a"}, "exp_annotations": {"summary": summary}}
    check_alert("LedgerNotice", {'ledger_notice{instance="a"}': has_notice}, [fired] * has_notice, tmp_path)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(("answers", "lost"), [(1, False), (0, True)])
def test_an_alert_reports_that_the_proxies_do_not_answer(answers: int, lost: bool, tmp_path: Path) -> None:
    summary = "The ledger of a does not answer through nginx and HAProxy."
    labels = {"severity": "page", "job": "ledger", "instance": "a"}
    fired = {"exp_labels": labels, "exp_annotations": {"summary": summary}}
    series = {'ledger_proxies_up{job="ledger", instance="a"}': answers}
    check_alert("LedgerProxiesLost", series, [fired] if lost else [], tmp_path)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(("wait_s", "reported"), [(590, None), (610, "10m 10s"), ("Inf", "+Inf")])
def test_an_alert_reports_an_archive_that_stops(
    wait_s: int | str, reported: str | None, tmp_path: Path
) -> None:
    labels = {"severity": "page", "instance": "a"}
    fired = {
        "exp_labels": labels,
        "exp_annotations": {"summary": f"The archive of a lacks the log of {reported}."},
    }
    series = {'ledger_archive_wait_seconds{instance="a"}': " ".join([str(wait_s)] * 61)}
    check_alert("LedgerArchiveStops", series, [fired] if reported else [], tmp_path)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(("age_days", "old"), [(7, False), (9, True)])
def test_an_alert_reports_a_base_that_is_older_than_8_days(age_days: int, old: bool, tmp_path: Path) -> None:
    summary = "The archive of a has no base of the last 8 days, or cron makes none."
    fired = {"exp_labels": {"severity": "ticket", "instance": "a"}, "exp_annotations": {"summary": summary}}
    base = {'ledger_base_last_timestamp_seconds{instance="a"}': -age_days * 86_400}  # promtool begins at 0
    check_alert("LedgerBaseOld", base, [fired] if old else [], tmp_path, hours=2)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(
    ("left", "fstype", "mountpoint", "full"),
    [
        (16, "ext4", "/", False),
        (14, "ext4", "/", True),
        (14, "xfs", "/srv", True),
        (1, "tmpfs", "/run", False),
        (1, "ext4", "/boot", False),
    ],
)
def test_an_alert_reports_a_disk_that_is_almost_full(
    left: int, fstype: str, mountpoint: str, full: bool, tmp_path: Path
) -> None:
    labels = {"instance": "a", "fstype": fstype, "mountpoint": mountpoint}
    names = "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
    sizes = {
        f"node_filesystem_avail_bytes{names}": left * 1024,
        f"node_filesystem_size_bytes{names}": 100 * 1024,
    }
    summary = f"{mountpoint} of a has only {left}kiB left."
    fired = {"exp_labels": {**labels, "severity": "page"}, "exp_annotations": {"summary": summary}}
    check_alert("LedgerDiskFull", sizes, [fired] if full else [], tmp_path)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(("hours", "grows"), [(3, False), (27, True)])
def test_an_alert_predicts_the_size_of_the_database_from_a_whole_day(
    hours: int, grows: bool, tmp_path: Path
) -> None:
    summary = "The database of a will have 202.8GiB in two weeks."
    fired = {"exp_labels": {"severity": "ticket", "instance": "a"}, "exp_annotations": {"summary": summary}}
    size = {'ledger_database_bytes{instance="a"}': 0}
    check_alert(
        "LedgerDatabaseGrows", size, [fired] if grows else [], tmp_path, hours=hours, per_minute=10_000_000
    )


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize(
    ("opened", "repeats"),
    [
        ("10x30 10+12x30", True),
        ("10x49 70x10", False),  # PostgreSQL was restarted
        ("60x48 40x1 20x12", False),  # the server was restarted twice
    ],
)
def test_an_alert_reports_connections_that_are_lost_again_and_again_but_no_restart(
    opened: str, repeats: bool, tmp_path: Path
) -> None:
    summary = "a loses its connections to the database again and again."
    fired = {"exp_labels": {"severity": "ticket", "instance": "a"}, "exp_annotations": {"summary": summary}}
    series = {'ledger_storage_connections_total{instance="a"}': opened}
    check_alert("LedgerReconnects", series, [fired] if repeats else [], tmp_path)


def check_alert(
    alert: str,
    series: Mapping[str, int | str],
    fired: list[dict[str, object]],
    tmp_path: Path,
    *,
    hours: int = 1,
    per_minute: int = 0,
) -> None:
    """Let promtool check which alerts fire after some hours in which each series grew from its value.

    If the value of a series is a text, the text holds all values of the series in promtool's notation.
    """
    test = {
        "interval": "1m",
        "input_series": [
            {
                "series": name,
                "values": value if isinstance(value, str) else f"{value}+{per_minute}x{60 * hours}",
            }
            for name, value in series.items()
        ],
        "alert_rule_test": [{"eval_time": f"{hours}h", "alertname": alert, "exp_alerts": fired}],
    }
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [test]}))
    checked = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
