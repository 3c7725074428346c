"""Starts the zygote, from which instances are forked: descriptor 3 is its socket (docs/protocol.md).

    python3 -I zygote.py
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    # On the path only for this import: functions must not find what lies beside the package.
    sys.path.insert(0, HERE)
    from nimbus import _instance, _zygote

    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    _instance.main(_zygote.serve())


if __name__ == "__main__":
    main()
