"""The server that the campaign attacks: `python -m reliability.toy_server FILES`, with so many open files at most.

Its models are toys without arithmetic (tests/serving/fake.py), one of bytes and one of subwords with a short context; the rest is what
`weft serve` runs. It prints its address, and logs as the command does.
"""

from __future__ import annotations

import resource
import sys

from tests.serving.fake import toy, toy_service
from weft.cli import console
from weft.data.tokenizers.subwords import ByteBPE
from weft.serving import process


def main() -> int:
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    console.show_log()
    subwords = ByteBPE.train("a line of words and some more of them\n" * 50, 400, ["start", "end"])
    service = toy_service(toy(delay=0.002), toy("subwords", context=64, tokenizer=subwords))
    listening = process.bind("127.0.0.1", 0)
    return process.serve(service, listening, grace=2.0, ready=lambda: print(process.address(listening), flush=True))


if __name__ == "__main__":
    sys.exit(128 + main())
