"""A logger for those who want no more than lines: `LEVEL message key=value …`."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

_PLAIN = re.compile(r"[^\s\"=]+")


class Log:
    def debug(self, message: object, /, **fields: Any) -> None:
        _write("DEBUG", message, fields)

    def info(self, message: object, /, **fields: Any) -> None:
        _write("INFO", message, fields)

    def warning(self, message: object, /, **fields: Any) -> None:
        _write("WARNING", message, fields)

    def error(self, message: object, /, **fields: Any) -> None:
        _write("ERROR", message, fields)


def _write(level: str, message: object, fields: dict[str, Any]) -> None:
    parts = [level, str(message).replace("\n", "\\n"), *(f"{name}={_text(value)}" for name, value in fields.items())]
    sys.stdout.write(" ".join(parts) + "\n")


def _text(value: object) -> str:
    """As it is where that can be told from what follows, quoted otherwise."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


log = Log()
