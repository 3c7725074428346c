"""Starts an instance: descriptor 3 is the socket to the server (docs/protocol.md).

    python3 -I instance.py
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    # On the path only for this import: functions must not find what lies beside the package.
    sys.path.insert(0, HERE)
    from nimbus import _instance

    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    _instance.main(os.getpid())


if __name__ == "__main__":
    main()
