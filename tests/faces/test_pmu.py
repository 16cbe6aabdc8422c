"""`neoserve pmu`: live on this host, on files, and what it refuses."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from neoserve.measure.pmu.probe import core_pmus

DATA = Path(__file__).parents[1] / "data" / "pmu"
without_pmu = pytest.mark.skipif(bool(core_pmus()), reason="this host has a PMU")


@pytest.fixture
def server():
    """A process of its own that listens on a port, and spins."""
    code = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
            "print(s.getsockname()[1], flush=True)\nwhile True: pass")  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    yield child.pid, int(child.stdout.readline())
    child.kill()
    child.wait()
    child.stdout.close()


@without_pmu
@pytest.mark.parametrize("how", ["pid", "port", "url"])
def test_a_host_without_pmu_says_so_and_gives_the_kernels_word(cli, server, how):
    pid, port = server
    words = {"pid": ("--pid", str(pid)), "port": ("--port", str(port)),
             "url": (f"http://127.0.0.1:{port}",)}[how]  # fmt: skip
    said = cli("pmu", *words, "--seconds", "0.5", "--json")
    assert said.code == 0  # the rung that it names could be measured
    found = said.document
    assert (found["rung"], found["tool"], found["figures"]) == ("proc", "/proc", {})
    assert found["scope"] == f"process {pid}"
    assert "PMU" in found["reasons"][0]
    assert found["kernel"]["user_s"] > 0
    assert f"counting process {pid} for 0.5 s" in said.err


@without_pmu
def test_what_people_read(cli, server):
    said = cli("pmu", "--pid", str(server[0]), "--seconds", "0.5")
    assert said.out.startswith("proc: no hardware counters: what the kernel accounts")
    assert "Accounted by the kernel, no counters:" in said.out
    assert "Why not more" in said.out
    assert max(map(len, said.out.splitlines())) <= 100


@without_pmu
def test_cpus_that_cannot_be_counted_are_a_failure(cli):
    said = cli("pmu", "--cores", "0", "--seconds", "0.5")
    assert said.code == 4
    assert said.out.startswith("none: nothing could be counted (CPUs 0")


def test_a_file_of_perf(cli):
    said = cli("pmu", "--import", str(DATA / "arm-guest-intervals.csv"), "--core", "v1")
    assert said.code == 0
    assert "instructions a cycle" in said.out
    assert said.out.startswith("ipc: IPC and cache misses")


def test_a_file_without_counts(cli):
    said = cli("pmu", "--import", str(DATA / "perf-6.1-no-pmu.json"), "--json")
    assert said.code == 4
    assert "cycles is <not supported>" in said.document["reasons"][0]


def test_an_instance_before_it_is_rented(cli):
    said = cli("pmu", "--on", "c6i.4xlarge")
    assert said.code == 0
    assert said.out.startswith("c6i.4xlarge: no PMU at all")
    assert "c6i.16xlarge" in said.out
    assert cli("pmu", "--on", "c8g.4xlarge", "--json").document["level"] == "basic"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "whom to count?"),
        (("--pid", "1", "--cores", "0"), "--pid and --cores ask for different things"),
        (("--pid", "4194305"), "process 4194305 does not run"),
        (("--pid", "x"), "--pid"),
        (("--cores", "0-9999"), "is not here"),
        (("--cores", "0-99999999999"), "no host has so many CPUs"),
        (("--cores", "zero"), "is no list of CPUs"),
        (("--pid", "1", "--seconds", "0"), "--seconds 0: expected"),
        (("--pid", "1", "--seconds", "1e9"), "expected 0.5 to 3600"),
        (("--port", "70000"), "expected 1 to 65535"),
        (("http://example.com:8000",), "is not on this host"),
        (("http://localhost:99999",), "http://localhost:99999 is no URL of a server"),
        (("http://[::1",), "is no URL of a server"),
        (("--import", "none.json"), "cannot be read"),
        (("--import", "none.json", "--core", "m4"), "core 'm4' is not known"),
        (("--pid", "1", "--core", "v2"), "give --import"),
        (("--on", "p5.48xlarge"), "nothing is published"),
        (("--pid", "1", "--performix", "box"), "Arm Performix is not installed"),
    ],
)
def test_bad_asks(refused, words, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert says in refused("pmu", *words)


def test_a_port_that_nobody_listens_on(refused):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert "no process that we may see listens" in refused("pmu", "--port", str(port))
