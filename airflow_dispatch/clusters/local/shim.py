"""The program of a shim: one small process per object, that outlives whoever started it.

It is run by path with `-I -S` and only its object's name as argument: no environment, no site
packages. It leaves its parent at once, finds the package that it belongs to, and lives the `life`
of a shim. Whoever started it reaps the half that ends here.
"""
# ruff: noqa: PTH100, PTH120 - a shim starts faster without pathlib

import os
import sys


def main() -> None:
    """Leave the parent, then begin."""
    if os.fork():
        os._exit(0)
    package = os.path.abspath(__file__)
    for _ in range(3):
        package = os.path.dirname(package)
    # Last, so that nothing beside the package can stand in for the standard library.
    sys.path.append(os.path.dirname(package))
    from airflow_dispatch.clusters.local import life  # noqa: PLC0415 - found only now

    life.live(sys.stdin.buffer.read())


if __name__ == "__main__":
    main()
