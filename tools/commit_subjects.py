"""Check the subjects of commits: `commit_subjects.py [RANGE]` (CONTRIBUTING.md, "Changes").

A subject is an imperative sentence of at most 72 characters, without a prefix and without a period. Without
RANGE, the program checks every commit since the rule began.
"""

from __future__ import annotations

import re
import subprocess
import sys

BEGINNING = "870717f3f45797a3eadd6ce06bd5862e69911f43"  # the last commit before the rule
LENGTH_MAX = 72
_PREFIX = re.compile(r"^[\w ()/-]{1,20}: ")
_NOT_IMPERATIVE = re.compile(r"^(?!(?:Bring|Embed|Ping|Shed|String)\b)\w*(?:[^e\W]ed|ing)\b")


def faults_of(subject: str) -> list[str]:
    """Return what is wrong with a subject, each as the end of a sentence."""
    faults = []
    if len(subject) > LENGTH_MAX:
        faults.append(f"has {len(subject)} characters; {LENGTH_MAX} is the limit")
    if _PREFIX.match(subject):
        faults.append("begins with a prefix")
    if not subject[:1].isupper() or _NOT_IMPERATIVE.match(subject):
        faults.append("does not begin with an imperative")
    if subject.endswith("."):
        faults.append("ends with a period")
    return faults


def main() -> None:
    """Print each subject that breaks the rule, and exit with 1 if there is one."""
    commits = sys.argv[1] if len(sys.argv) > 1 else f"{BEGINNING}..HEAD"
    listed = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", commits], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        print("The history does not reach back to the rule's beginning: no subject was checked.")
        return
    bad = 0
    for line in listed.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        for fault in faults_of(subject):
            print(f"The subject of {commit} {fault}: {subject}")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
