"""The run of the system tests: writes its own account of when it ran.

The ground truth of every check.

Lines of the account: `START <pid> <generation> <time>`, `END <pid> <generation> <time> <how>`, and
`OVERLAP ...` if another run of the same account is alive, which a lock on a file beside it tells.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main() -> int:
    """Run for a while; end with the asked exit code, or with 143 on SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--account", required=True)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--exit-first", type=int, default=0, help="exit code of generation 1")
    asked = parser.parse_args()
    generation = os.environ["DISPATCH_GENERATION"]

    def tell(*words: object) -> None:
        with Path(asked.account).open("a", encoding="utf-8") as account:
            account.write(" ".join(map(str, words)) + "\n")

    def end(how: str) -> None:
        tell("END", os.getpid(), generation, time.time(), how)

    def warned(_signal: int, _frame: FrameType | None) -> None:
        end("warned")
        sys.exit(143)

    with Path(asked.account + ".lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("OVERLAP", os.getpid(), generation, time.time())
        signal.signal(signal.SIGTERM, warned)
        tell("START", os.getpid(), generation, time.time())
        until = time.monotonic() + asked.seconds
        count = 0
        enough = Path(asked.account + ".enough")
        while time.monotonic() < until and not enough.exists():
            count += 1
            sys.stdout.write(f"working, beat {count}\n")
            sys.stdout.flush()
            time.sleep(0.25)
        with Path(os.environ["DISPATCH_RESULT"]).open("w", encoding="utf-8") as result:
            result.write(f'{{"beats": {count}}}')
        end("ran out")
    code: int = asked.exit_first if asked.exit_first and generation == "1" else asked.exit
    return code


if __name__ == "__main__":
    sys.exit(main())
