"""All campaigns, one after another: `python reliability`; each is also a script with options of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CAMPAIGNS = ("kill", "damage", "faults", "signals", "processes", "hostile", "fuzz", "server", "page")


def main() -> int:
    here = Path(__file__).resolve().parent
    codes = {name: subprocess.call([sys.executable, str(here / f"{name}.py"), *sys.argv[1:]]) for name in CAMPAIGNS}
    failed = [name for name, code in codes.items() if code]
    print(f"failed: {', '.join(failed)}" if failed else "all campaigns passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
