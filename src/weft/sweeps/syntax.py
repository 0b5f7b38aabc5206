"""How a range is written: 1e-4..1e-2, by ratios with :log, and so many points of it with :5."""

from __future__ import annotations

import re

NUMBER = r"[-+]?(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?(?::(\d+))?")
