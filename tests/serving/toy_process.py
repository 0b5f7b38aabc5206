"""A process that serves the toy: `python -m tests.serving.toy_process GRACE [FILES]`, with so many open files at most.

It prints its address, and logs and ends as `weft serve` does.
"""

from __future__ import annotations

import resource
import signal
import sys

from tests.serving.fake import toy, toy_service
from weft.cli import console
from weft.serving import process

if __name__ == "__main__":
    for files in map(int, sys.argv[2:]):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    console.show_log()
    listening = process.bind("127.0.0.1", 0)
    service = toy_service(toy(delay=0.02))
    received = process.serve(service, listening, grace=float(sys.argv[1]), ready=lambda: print(process.address(listening), flush=True))
    sys.exit(0 if received == signal.SIGTERM else 128 + received)
