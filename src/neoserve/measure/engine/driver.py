"""What differs from engine to engine: a Driver. What is the same is in `running`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from ...errors import AskError
from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts, ProcessFacts
from ..cores import parse_cpus, show_cpus
from .api import Api

_OURS = ("--host", "--port")  # chosen at start
_ALLOCATOR = re.compile(r"(tcmalloc|jemalloc|mimalloc|rpmalloc|hoard|scudo|snmalloc)")


class Seen(NamedTuple):
    """A running engine as a driver reads it."""

    config: EngineConfig
    api: Api
    log: str
    processes: tuple[ProcessFacts, ...]


class Driver:
    """One engine. Each subclass says where it was read how that engine behaves."""

    name: ClassVar[str]
    health_route: ClassVar[str] = "/health"

    def check(self, config: EngineConfig) -> None:
        """Raises AskError when this cannot run here as asked."""
        for flag in _OURS:
            if flag_value(config.argv, flag) is not None:
                raise AskError(f"{flag} is chosen when {self.name} starts: leave it out")
        check_preload(config.env)

    def argv(self, config: EngineConfig, port: int) -> tuple[str, ...]:
        """The whole command."""
        return (*config.argv, "--host", "127.0.0.1", "--port", str(port))

    def expected_s(self, config: EngineConfig) -> float:  # noqa: ARG002
        """Seconds that a start usually takes."""
        return 10.0

    def ready_timeout_s(self, config: EngineConfig) -> float:
        """Seconds after which a start has failed."""
        return max(120.0, 10 * self.expected_s(config))

    def stage(self, log: str) -> str:  # noqa: ARG002
        """What it is doing, for people; "" while the log does not say."""
        return ""

    def reason(self, log: str) -> str:
        """The engine's own words for its end."""
        return last_words(log)

    def facts(self, seen: Seen) -> EngineFacts:
        """What really runs."""
        raise NotImplementedError

    def computing(self, processes: Sequence[ProcessFacts]) -> list[ProcessFacts]:
        """Those that compute: all but helpers."""
        return list(processes)

    def mismatches(self, config: EngineConfig, facts: EngineFacts) -> tuple[str, ...]:
        """Where what runs is not what was asked; each makes a trial void."""
        return tuple(allocator_mismatch(config.env, self.computing(facts.processes)))


def flag_value(argv: Sequence[str], *names: str) -> str | None:
    """The last value of a flag under one of its names, as ``--flag value`` or ``--flag=value``."""
    found = None
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else argv[i + 1] if i + 1 < len(argv) else ""
    return found


def has_flag(argv: Sequence[str], *names: str) -> bool:
    """Whether a switch is set under one of its names."""
    return any(name in argv for name in names)


# What engines and their libraries read, whoever set it.
_READ_BY_ENGINES = ("VLLM_", "SGLANG_", "LLAMA_", "GGML_", "OMP_", "GOMP_", "KMP_", "MKL_",
                    "TORCH", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "MALLOC_")  # fmt: skip
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


def inherited(env: Mapping[str, str], surroundings: Mapping[str, str]) -> str:
    """Variables that an engine reads and that nobody asked for, as ``A=1 B=2``; no secrets."""
    return shlex.join(
        f"{name}={value}"
        for name, value in sorted(surroundings.items())
        if name.startswith(_READ_BY_ENGINES) and name not in env and not _SECRET.search(name)
    )


def preloaded(env: dict[str, str]) -> list[str]:
    """Libraries of LD_PRELOAD; the linker takes colons and spaces."""
    return [word for word in re.split(r"[:\s]+", env.get("LD_PRELOAD", "")) if word]


def check_preload(env: dict[str, str]) -> None:
    """Raises AskError for a library that is not there: the linker would go on without it."""
    for library in preloaded(env):
        if "/" in library and not Path(library).is_file():
            raise AskError(f"LD_PRELOAD names {library}, which is not there")


def allocator_mismatch(
    env: dict[str, str], processes: Iterable[ProcessFacts]
) -> list[str]:
    """A sentence for each process whose malloc is not the preloaded allocator's."""
    asked = next((Path(lib).name for lib in preloaded(env) if _ALLOCATOR.search(lib)), "")
    if not asked:
        return []
    family = _ALLOCATOR.findall(asked)[0]
    return [
        f"LD_PRELOAD asked for {asked}, but malloc of {process.name} ({process.pid}) "
        + (f"is {process.allocator}'s" if process.allocator else "cannot be told")
        for process in processes
        if family not in process.allocator
    ]


def affinity_mismatch(cpus: str, processes: Iterable[ProcessFacts]) -> list[str]:
    """A sentence for each process with a thread that may run outside `cpus` ("" allows all)."""
    allowed = set(parse_cpus(cpus))
    found = []
    for process in processes:
        used = {cpu for text in process.affinity for cpu in parse_cpus(text)}
        if cpus and not used <= allowed:
            found.append(
                f"the engine was given CPUs {cpus}, but {process.name} ({process.pid}) "
                f"may run on {show_cpus(sorted(used))}"
            )
    return found


def affinities(processes: Iterable[ProcessFacts]) -> tuple[str, ...]:
    """Distinct CPU lists of all their threads."""
    return tuple(sorted({text for process in processes for text in process.affinity}))


def allocators(processes: Iterable[ProcessFacts]) -> str:
    """Distinct allocators, joined."""
    return ", ".join(sorted({process.allocator for process in processes} - {""}))


def last_words(log: str, num: int = 3) -> str:
    """The last lines of a log, for an end that is told by nothing better."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return "; ".join(lines[-num:]) or "it printed nothing"


# Before a line's own text: "(EngineCore pid=7) ERROR 11-30 15:50:08 [core.py:133] ", or
# "[2025-11-06 01:22:10 TP0] ".
_PREFIX = re.compile(
    r"^(?:\([\w :.-]+ pid=\d+\) ?)?(?:[A-Z]+ \d\d-\d\d [\d:.]+ \[[^\]]*\] ?|\[\d{4}-[^\]]*\] )?"
)
_EXCEPTION = re.compile(r"^(?:[a-zA-Z_]\w*\.)*([A-Z]\w*(?:Error|Exception)): (.+)$")
_USAGE = re.compile(r"^[\w./-]+: error: (.+)$", re.MULTILINE)
_PLAIN = ("ValueError", "RuntimeError", "ValidationError")  # their text alone says it


def first_exception(log: str, second_hand: Sequence[str] = ()) -> str:
    """The last line of the first traceback; lines that hold a word of `second_hand` come last."""
    found = []
    lines = [_PREFIX.sub("", line) for line in log.splitlines()]
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        if match := _EXCEPTION.match(line.strip()):
            kind, text = match[1], match[2].strip()
            if kind == "ValidationError":  # pydantic: its text is a count, the reason comes next
                text = following.strip().removeprefix("Value error, ").partition(" [type=")[0]
            found.append(_brief(text if kind in _PLAIN else f"{kind}: {text}"))
    first_hand = [text for text in found if not any(word in text for word in second_hand)]
    return (first_hand or found or [""])[0]


def _brief(text: str, max_chars: int = 300) -> str:
    """Whole sentences, as many as fit."""
    if len(text) <= max_chars:
        return text
    end = text.rfind(". ", 0, max_chars)
    return text[: end + 1] if end > 0 else f"{text[:max_chars]}…"


def usage_error(log: str) -> str:
    """What argparse refused; "" if it refused nothing."""
    match = _USAGE.search(log)
    return match[1].strip() if match else ""


def check_model(model: str) -> None:
    """Raises AskError for a path that is not there; another name is the engine's to find."""
    if model.startswith(("/", "./", "../", "~")) and not Path(model).expanduser().exists():
        raise AskError(f"model {model} is not there; expected a file or folder of this host")
