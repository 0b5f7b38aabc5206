"""A process that serves the toy: `python -m tests.serving.toy_process GRACE`. It prints its address, and ends as `weft serve` does."""

from __future__ import annotations

import signal
import sys

from tests.serving.fake import toy, toy_service
from weft.serving import process

if __name__ == "__main__":
    listening = process.bind("127.0.0.1", 0)
    service = toy_service(toy(delay=0.02))
    received = process.serve(service, listening, grace=float(sys.argv[1]), ready=lambda: print(process.address(listening), flush=True))
    sys.exit(0 if received == signal.SIGTERM else 128 + received)
