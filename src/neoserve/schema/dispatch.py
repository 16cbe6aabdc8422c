"""DispatchReport: which implementations ran, by the library's own log or by samples."""

from __future__ import annotations

from typing import Literal

from .base import Document


class OneDnnCopy(Document, frozen=True):
    """One build of oneDNN that introduced itself in a log."""

    version: str  # "v3.9.1"
    commit: str = ""
    isa: str = ""  # the widest that it dispatches to on this CPU
    runtime: str = ""  # "OpenMP,nthr:2"
    times: int = 1  # processes or copies that said the same


class PrimitiveRuns(Document, frozen=True):
    """All executions of one primitive by one implementation in one set of number formats."""

    primitive: str  # matmul, reorder ...
    implementation: str  # "brg_matmul:avx2_vnni_2", "gemm:acl"
    dtypes: str  # source:weights:destination, as benchdnn's --dt
    num: int
    seconds: float
    share: float  # of the time of all executions


class KernelRuns(Document, frozen=True):
    """A kernel of another library that oneDNN called, within a primitive's time (Arm's ACL)."""

    name: str
    num: int
    seconds: float


class Symbol(Document, frozen=True):
    """One function among the samples of perf."""

    name: str
    library: str
    self_share: float  # of the samples, in it
    total_share: float | None = None  # with what it called; null without call graphs

    @property
    def share(self) -> float:
        """With what it called, where that is known."""
        return self.self_share if self.total_share is None else self.total_share


class MappedLibrary(Document, frozen=True):
    """A file whose code a process has loaded."""

    path: str
    sha256: str  # "" where the file is gone or replaced
    size_bytes: int
    pids: tuple[int, ...]


class Ran(Document, frozen=True):
    """What matched a pattern, and how much of all it was."""

    name: str
    share: float
    of: Literal["executions' time", "samples"]  # samples: with what it called, where known


# Version history: 1, first.
class DispatchReport(Document, frozen=True, kw_only=True):
    """What ran. What could not be observed is absent, and `absent` says why."""

    schema: str = "neoserve/dispatch/1"
    basis: str = "measured"
    log: str = ""  # sha256: of the log that was read
    copies: tuple[OneDnnCopy, ...] = ()
    num_exec: int = 0
    exec_s: float = 0.0
    num_create: int = 0
    create_s: float = 0.0
    num_unread: int = 0  # lines of oneDNN that were cut or are of an unknown form
    primitives: tuple[PrimitiveRuns, ...] = ()  # longest time first
    kernels: tuple[KernelRuns, ...] = ()
    pids: tuple[int, ...] = ()
    libraries: tuple[MappedLibrary, ...] = ()
    event: str = ""  # of the samples: "cycles:P", "cpu-clock"
    num_samples: str = ""  # as perf rounds it: "31K"
    symbols: tuple[Symbol, ...] = ()  # largest share first
    absent: tuple[str, ...] = ()
    asked: str = ""  # the pattern of --ran
    ran: tuple[Ran, ...] = ()  # what of the above matches it
