"""What every test shares: one thread per worker, random numbers, the device under test, and a registry that forgets what it added."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from weft.core import registry

HERE = Path(__file__).parent
collect_ignore: list[str] = []

if not (importlib.util.find_spec("fastapi") and importlib.util.find_spec("openai")):
    collect_ignore += [str(HERE / "serving"), *(str(path) for path in HERE.rglob("test_*.py") if "from tests.serving" in path.read_text())]

if importlib.util.find_spec("hypothesis"):
    import hypothesis

    hypothesis.settings.register_profile("weft", deadline=None, derandomize=True, max_examples=50, database=None)
    hypothesis.settings.load_profile("weft")
else:  # a machine with torch and pytest only
    collect_ignore += [str(path) for path in HERE.rglob("test_*.py") if "from hypothesis" in path.read_text()]

torch.set_warn_always(True)  # what PyTorch says once a process would else meet one test in each
torch.set_num_threads(1)  # the tensors are small, and workers share the cores


def pytest_addoption(parser: pytest.Parser) -> None:
    if importlib.util.find_spec("pytest_timeout") is None:  # pyproject.toml sets it; without the plugin nobody knows it
        parser.addini("timeout", "seconds a test may take")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs a CUDA device")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after all that others say
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Ends with how many tests were skipped for which reason; also in the file that WEFT_SKIPPED names."""
    yield
    reasons = Counter(reason_of(report) for report in terminalreporter.stats.get("skipped", []))
    lines = [f"skipped: {reasons.total()}", *(f"  {number:4}  {reason}" for reason, number in reasons.most_common())]
    terminalreporter.write_sep("-", "skipped tests by reason")
    terminalreporter.write_line("\n".join(lines))
    if file := os.environ.get("WEFT_SKIPPED"):
        Path(file).write_text("\n".join(lines) + "\n")


def reason_of(report: pytest.TestReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


@pytest.fixture
def device() -> torch.device:
    """Where engine tests run: the CPU, or what WEFT_TEST_DEVICE names."""
    return torch.device(os.environ.get("WEFT_TEST_DEVICE", "cpu"))


@pytest.fixture(autouse=True)
def _global_state() -> Iterator[None]:
    """Begin with the same random numbers, whatever ran before; leave torch's global switches and the registry as they were."""
    torch.manual_seed(0)
    held = {name: dict(table) for name, table in registry.TABLES.items()}
    yield
    for name, table in held.items():
        registry.TABLES[name].clear()
        registry.TABLES[name].update(table)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
