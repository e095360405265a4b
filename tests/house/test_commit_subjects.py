"""The rule for the subjects of commits, which `.ci/run` checks."""

from __future__ import annotations

import pytest

from tools.commit_subjects import faults_of


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("Retry a resend that overlaps an attempt", None),
        ("Bring a ledger up to date in one transaction", None),
        ("Retry a resend that overlaps an attempt, whatever the result of the attempt is", "the limit"),
        ("Seed the generator of ids again in a forked process", None),
        ("Webhooks: a resend is retried", "a prefix"),
        ("Retried a resend", "an imperative"),
        ("retry a resend", "an imperative"),
        ("Retry a resend.", "a period"),
    ],
)
def test_a_subject_is_a_short_imperative_sentence(subject: str, fault: str | None) -> None:
    faults = faults_of(subject)
    assert (not faults) if fault is None else any(text.endswith(fault) for text in faults), faults
