"""Which code really ran: oneDNN's own log, samples of perf, and the files that were mapped."""

from .mapped import mapped_libraries
from .onednn import Verbose, read_verbose
from .perf import parse_report, record

__all__ = ["Verbose", "mapped_libraries", "parse_report", "read_verbose", "record"]
