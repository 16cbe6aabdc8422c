"""The words and the environment that were measured come out of every format again."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from dockerfile_parse import DockerfileParser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.recipe.compose import compose
from neoserve.recipe.dockerfile import dockerfile
from neoserve.recipe.kserve import kserve
from neoserve.recipe.kubernetes import kubernetes
from neoserve.recipe.served import served, served_by
from neoserve.recipe.shell import env_script, run_script
from neoserve.recipe.systemd import systemd
from neoserve.recipe.vllm_config import vllm_config
from neoserve.schema.engine import EngineConfig

from .readers import (
    compose_service,
    kubernetes_word,
    load,
    load_all,
    sample_arguments,
    systemd_command,
    systemd_value,
    systemd_words,
    vllm_words,
)
from .sample import EVERY, GPU, LLAMACPP, W8A8, graviton

NASTY = st.text(
    st.one_of(
        st.sampled_from("$%'\"\\`!(){}[];&|<>*?~#=:,-+ @^é😀0a"),
        st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")),
    ),
    max_size=12,
)
# The names that the model is found by, and what ends vLLM's own flags.
WORDS = NASTY.filter(lambda word: word not in ("--model", "-m", "serve") and "--config" not in word)
ENVS = st.dictionaries(st.sampled_from(["VLLM_A", "OMP_B", "_C"]), NASTY, max_size=3)
NAMES = NASTY.filter(lambda word: word and "/" not in word)
MODELS = st.lists(NAMES, min_size=1, max_size=2).map(lambda names: "/" + "/".join(names))

many = settings(max_examples=60, deadline=None)


def vllm(arguments, env=None, model="/m", program=("/opt/bin/vllm", "serve")):
    return EngineConfig(
        engine="vllm", version="vllm 0.32.0+cpu", argv=(*program, model, *arguments), env=env or {}
    )


def pods(text):
    """Containers of the Deployment."""
    (deployment,) = (d for d in load_all(text) if d["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("name", EVERY)
def test_every_sample_in_every_container(name):
    r = EVERY[name]()
    config = r.config
    after = list(config.argv[2:] if config.engine == "vllm" else config.argv[3:])
    port = {"vllm": "8000", "llama.cpp": "8080"}[config.engine]
    after += ["--host", "0.0.0.0", "--port", port]
    front = {"vllm": ["vllm", "serve"], "llama.cpp": ["/app/llama-server"]}[config.engine]
    made = served_by(r)
    service = compose_service(compose(made))
    assert (service["entrypoint"], service["command"]) == (front, after)
    container = pods(kubernetes(made))
    assert (container["command"], container["args"]) == (front, after)
    lines = dockerfile(made).splitlines()
    assert json.loads(lines[-1].removeprefix("CMD ")) == after
    assert json.loads(lines[-2].removeprefix("ENTRYPOINT ")) == front
    assert systemd_command(systemd(made))[: len(config.argv)] == list(config.argv)


@many
@given(st.lists(WORDS, max_size=6), ENVS, MODELS)
def test_compose(arguments, env, model):
    service = compose_service(compose(served(vllm(arguments, env, model))))
    assert service["command"] == [model, *arguments, "--host", "0.0.0.0", "--port", "8000"]
    assert service.get("environment", {}) == env
    bind = service["volumes"][-1]
    assert bind["source"] == bind["target"] == (
        model.rpartition("/")[0] or "/" if model.endswith(".gguf") else model
    )


@many
@given(st.lists(WORDS, max_size=6), ENVS)
def test_kubernetes(arguments, env):
    container = pods(kubernetes(served(vllm(arguments, env))))
    read = [kubernetes_word(word) for word in container["args"]]
    assert read == ["/m", *arguments, "--host", "0.0.0.0", "--port", "8000"]
    assert {e["name"]: kubernetes_word(e["value"]) for e in container.get("env", ())} == env


@many
@given(st.lists(WORDS, max_size=6), ENVS)
def test_systemd(arguments, env):
    config = vllm(arguments, env, program=("/opt/a b/$x/100%/vllm", "serve"))
    unit = systemd(served(config))
    assert systemd_command(unit) == [*config.argv, "--host", "127.0.0.1", "--port", "8000"]
    pairs = [systemd_words(value) for value in systemd_value(unit, "Environment")]
    assert all(len(words) == 1 for words in pairs)
    found = dict(words[0].split("=", 1) for words in pairs)
    assert found.pop("HOME").startswith("/var/cache/neoserve")
    assert found == env


@many
@given(st.lists(WORDS, max_size=6), ENVS)
def test_dockerfile(arguments, env):
    text = dockerfile(served(vllm(arguments, env)))
    last = text.splitlines()[-1]
    assert json.loads(last.removeprefix("CMD "))[1:-4] == arguments
    # ENV "..." by Docker's rules: a backslash takes the next character as it is.
    found = {}
    for line in text.splitlines():
        if line.startswith("ENV "):
            name, _, value = line.removeprefix("ENV ").partition("=")
            found[name] = unquoted(value)
    assert found == env


def unquoted(text):
    assert text[0] == text[-1] == '"'
    out, chars = "", iter(text[1:-1])
    for c in chars:
        assert c not in '"$', text
        out += next(chars) if c == "\\" else c
    return out


def test_another_parser_reads_the_dockerfile(tmp_path):
    parser = DockerfileParser(str(tmp_path))
    parser.content = dockerfile(served_by(EVERY["llama.cpp"]()))
    assert parser.baseimage == "ghcr.io/ggml-org/llama.cpp:server"
    assert parser.envs == {"LD_PRELOAD": "libjemalloc.so.2"}
    names = [step["instruction"] for step in parser.structure if step["instruction"] != "COMMENT"]
    assert names == ["FROM", "USER", "RUN", "ENV", "EXPOSE", "ENTRYPOINT", "CMD"]


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A program that prints its words, then its environment's names of ours."""
    path = tmp_path_factory.mktemp("stub") / "it's a $stub"
    path.write_text(
        '#!/bin/sh\nprintf "%s\\0" "$0" "$@"\n'
        'printf "%s\\0" "${VLLM_A-unset}" "${OMP_B-unset}" "${_C-unset}"\n'
    )
    path.chmod(0o755)
    return str(path)


def ran(script, shell="sh"):
    done = subprocess.run([shell, "-c", script, "run.sh"], capture_output=True, check=True,
                          env={"PATH": os.environ["PATH"]})  # fmt: skip
    return sample_arguments(done.stdout.decode()), done.stderr.decode()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORDS, max_size=6), ENVS, st.sampled_from(["sh", "bash"]))
def test_run_script(stub, arguments, env, shell):
    config = vllm(arguments, env, program=(stub, "serve"))
    printed, _ = ran(run_script(served(config)), shell)
    assert printed[:-3] == [*config.argv, "--host", "127.0.0.1", "--port", "8000"]
    assert printed[-3:] == [env.get(name, "unset") for name in ("VLLM_A", "OMP_B", "_C")]


def test_run_script_appends_and_binds(tmp_path):
    """The CPUs are set before the engine starts; on a host without them it says so."""
    program = tmp_path / "engine"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "print(*sorted(os.sched_getaffinity(0)), *sys.argv[1:], sep='\\0', end='\\0')\n"
    )
    program.chmod(0o755)
    first = min(os.sched_getaffinity(0))
    made = served(vllm(["--x"], program=(str(program), "serve")))._replace(cpus=str(first))
    path = tmp_path / "run.sh"
    path.write_text(run_script(made))
    done = subprocess.run(["sh", path, "--port", "9000"], capture_output=True, check=True)
    assert sample_arguments(done.stdout.decode()) == [
        str(first), "serve", "/m", "--x", "--host", "127.0.0.1", "--port", "8000",
        "--port", "9000",
    ]  # fmt: skip
    assert done.stderr == b""
    path.write_text(run_script(made._replace(cpus="4000")))
    done = subprocess.run(["sh", path], capture_output=True, check=True)
    assert b"not bound to CPUs 4000" in done.stderr


FLAGS = st.from_regex(r"--[a-z][a-z0-9-]{0,8}[a-z]", fullmatch=True).filter(
    lambda flag: flag not in ("--model", "--config")
)
VALUES = NASTY.filter(lambda word: not word.startswith("-"))


@many
@given(st.lists(st.tuples(FLAGS, st.lists(VALUES, max_size=3)), max_size=5), ENVS)
def test_vllm_config(flags, env):
    """Flags in their order; those that a file cannot say follow on the command line."""
    arguments = [word for flag, values in flags for word in (flag, *values)]
    found = vllm_config(served(vllm(arguments, env)))
    first: dict[str, list[str]] = {}
    rest = []
    for flag, values in flags:
        if flag in first:
            rest += [flag, *values]
        else:
            first[flag] = values
    expected = [word for flag, values in first.items() for word in (flag, *values)]
    assert vllm_words(found.text) == ["--model", "/m", *expected]
    assert list(found.rest) == rest
    assert shlex.split(found.command) == ["vllm", "serve", "--config", "config.yml", *rest]


def test_what_looks_like_another_type_stays_text():
    words = ["--a", "08", "--b", "1e5", "--c", "off", "--d", "null", "--e", "-1", "--f=2024-01-01",
             "--no-g", "--h", "1_000", "--i", "", "-tp", "2", "-z", "1", "--j=--k"]  # fmt: skip
    found = vllm_config(served(vllm(words)))
    assert vllm_words(found.text) == [
        "--model", "/m", "--a", "08", "--b", "1e5", "--c", "off", "--d", "null", "--e", "-1",
        "--f", "2024-01-01", "--no-g", "--h", "1_000", "--i", "", "--tensor-parallel-size", "2",
    ]  # fmt: skip
    assert found.rest == ("-z", "1", "--j=--k")
    with pytest.raises(AskError, match="a --config of its own"):
        vllm_config(served(vllm(["--config", "x.yml"])))
    with pytest.raises(AskError, match="reads none"):
        vllm_config(served(LLAMACPP))


@many
@given(ENVS)
def test_env_script(env):
    script = env_script(served(vllm([], env)))
    show = 'printf "%s\\0" "${VLLM_A-unset}" "${OMP_B-unset}" "${_C-unset}"'
    printed, _ = ran(script + show)
    assert printed == [env.get(name, "unset") for name in ("VLLM_A", "OMP_B", "_C")]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORDS, max_size=6))
def test_kserve_evaluates_the_arguments(stub, arguments):
    """In a shell, after the model: quoted so that it reads the words that were measured."""
    document = load(kserve(served(vllm(arguments))))
    (container,) = document["spec"]["template"]["containers"]
    (value,) = (e["value"] for e in container["env"] if e["name"] == "VLLM_ADDITIONAL_ARGS")
    script = f'VLLM_ADDITIONAL_ARGS={shlex.quote(kubernetes_word(value))}\n' + (
        'eval "exec ' + shlex.quote(stub).replace('"', '\\"').replace("$", "\\$")
        + ' serve /mnt/models \\\n  ${VLLM_ADDITIONAL_ARGS} \\\n  $@"\n'
    )
    printed, _ = ran(script, "bash")
    assert printed[1:-3] == ["serve", "/mnt/models", *arguments]


def test_where_the_model_is_named():
    """By position, by flag, with arguments before it; `-m` may be python's."""
    module = ("py", "-m", "vllm.entrypoints.openai.api_server")
    made = served(W8A8.replace(argv=(*module, "--dtype", "half", "--model", "a/b", "--x", "1")))
    assert (made.program, made.model, made.arguments) == (
        module, "a/b", ("--dtype", "half", "--x", "1"))  # fmt: skip
    made = served(LLAMACPP.replace(argv=("/bin/llama-server", "-t", "2", "-m", "/a/b.gguf")))
    assert (made.program, made.model, made.arguments) == (
        ("/bin/llama-server",), "/a/b.gguf", ("-t", "2"))  # fmt: skip
    assert made.folder == "/a"
    assert served(LLAMACPP.replace(argv=("l", "-m", "/b.gguf"))).folder == "/"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (EngineConfig(engine="url", url="http://x:1"), "http://x:1 was running already"),
        (EngineConfig(engine="trtllm", argv=("a",)), "no recipe is known for engine 'trtllm'"),
        (EngineConfig(engine="vllm", argv=("vllm", "serve")), "names no model"),
        (GPU.replace(env={"A": "x\ny"}), "control character"),
        (GPU.replace(argv=(*GPU.argv, "a\x00b")), "control character"),
        (GPU.replace(env={"A B": "x"}), "no name that a shell takes"),
    ],
)
def test_what_has_no_recipe(config, reason):
    with pytest.raises(AskError, match=reason):
        served(config)


def test_the_samples_say_where_a_file_differs():
    text = kubernetes(served_by(graviton()))
    env = {e["name"]: e["value"] for e in pods(text)["env"]}
    # 15 CPUs, of which vLLM bound 14: auto binds as many where one is reserved
    assert env["VLLM_CPU_OMP_THREADS_BIND"] == "auto"
    assert env["VLLM_CPU_NUM_OF_RESERVED_CPU"] == "1"
    assert "# VLLM_CPU_OMP_THREADS_BIND=0-13 named CPUs of the measured host" in text
    assert "LD_PRELOAD" not in env
    assert "is left to the image. The image preloads tcmalloc itself" in text
