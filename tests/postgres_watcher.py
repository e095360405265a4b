"""The program that ends a PostgreSQL server of the tests when all processes that use it have ended.

These processes hold a lock on a file. The system releases the lock when they end, even if they are killed.
"""

import fcntl
import os
import shutil
import subprocess
import sys

users, folder, pg_ctl, user = sys.argv[1:]
with open(users) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    subprocess.run(
        [pg_ctl, "-D", os.path.join(folder, "data"), "-m", "immediate", "-w", "stop"],
        user=user or None,
        cwd="/",
        check=False,
    )
    shutil.rmtree(folder, ignore_errors=True)
    os.unlink(users)
