"""The vLLM recipe read by vLLM's own parser, and started once."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import time
import urllib.request

import pytest

from neoserve.measure.engine import vllm
from neoserve.measure.engine.process import free_port
from neoserve.measure.engine.vllm_program import PYTHON_VARIABLE
from neoserve.recipe.bundle import bundle
from neoserve.recipe.served import served
from neoserve.recipe.shell import env_script
from neoserve.recipe.vllm_config import vllm_config
from recipe.sample import HEAD, graviton

pytestmark = pytest.mark.vllm

CPU = str(min(os.sched_getaffinity(0)))
ENV = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": CPU}
ARGS = ("--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4", "--dtype", "bfloat16")

PARSE = """
import json, sys
from vllm.entrypoints.cli.serve import cmd_init
from vllm.utils.argparse_utils import FlexibleArgumentParser
def parsed(words):
    parser = FlexibleArgumentParser()
    commands = parser.add_subparsers(required=True, dest="subparser")
    for command in cmd_init():
        command.subparser_init(commands).set_defaults(dispatch_function=None)
    found = vars(parser.parse_args(words))
    found["model"] = found.pop("model_tag", None) or found["model"]
    found.pop("config", None)
    return {name: repr(value) for name, value in found.items()}
one, other = (parsed(words) for words in json.load(sys.stdin))
print(json.dumps({n: [one.get(n), other.get(n)] for n in {*one, *other}
                  if one.get(n) != other.get(n)}), one["max_num_seqs"], one["model"])
"""

NASTY = (
    "--max-num-seqs", "64", "--max-num-batched-tokens=4k", "--no-enable-prefix-caching",
    "--gpu-memory-utilization", "0.9", "--seed", "-1", "--block-size", "128", "--dtype", "half",
    "--served-model-name", "a name", "b's $name", "08", "--enforce-eager",
    "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}',
    "--hf-overrides", '{"a": "é\\\\ %"}', "--compilation-config.mode", "3", "-tp", "2",
    "--chat-template", "off", "--max-model-len", "1k", "--middleware", "a", "--middleware", "b",
)  # fmt: skip


def python(code, stdin=""):
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], "-c", code], input=stdin, capture_output=True, text=True,
        env=os.environ | {"VLLM_LOGGING_LEVEL": "ERROR"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_vllm_parses_the_file_as_it_parses_the_words(model, tmp_path):
    made = vllm.config(model, NASTY)
    found = vllm_config(served(made))
    path = tmp_path / "config.yml"
    path.write_text(found.text)
    words = [["serve", model, *NASTY], ["serve", "--config", str(path), *found.rest]]
    assert python(PARSE, json.dumps(words)) == f"{{}} 64 '{model}'"


def test_compressed_tensors_takes_the_scheme():
    """W8A8, W4A8 by channel and in groups, as its own class checks them."""
    schemes = []
    for word in ("w8a8", "w4a8-channel", "w4a8-g32"):
        r = graviton()
        candidate = r.pick.candidate.replace(knobs={"weights": word})
        script = bundle(r.replace(pick=r.pick.replace(candidate=candidate)), HEAD).files[
            "quantize.py"
        ]
        (call,) = (node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)
                   and getattr(node.func, "id", "") == "QuantizationModifier")  # fmt: skip
        schemes.append(ast.literal_eval(call.keywords[0].value)["group_0"])
    code = (
        "import json, sys\n"
        "from compressed_tensors.quantization import QuantizationScheme\n"
        "made = [QuantizationScheme(**one) for one in json.load(sys.stdin)]\n"
        "print([(m.weights.num_bits, m.weights.strategy, m.weights.group_size,\n"
        "        m.input_activations.symmetric) for m in made])\n"
    )
    assert python(code, json.dumps(schemes)) == (
        "[(8, 'channel', None, True), (4, 'channel', None, False), (4, 'group', 32, False)]"
    )


def test_the_recipe_serves(model, tmp_path):
    """env.sh, config.yml, and the front door that works here."""
    made = served(vllm.config(model, ARGS, ENV))
    (tmp_path / "env.sh").write_text(env_script(made))
    (tmp_path / "config.yml").write_text(vllm_config(made).text)
    port = free_port()
    start = '. ./env.sh && exec "$@"'
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        ["sh", "-c", start, "sh", *made.program, "--config", "config.yml", "--port", str(port)],
        cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + 360
        while not healthy(url):
            assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
            assert time.monotonic() < deadline_s
            time.sleep(1)
        asked = {"model": model, "prompt": "One two three", "max_tokens": 5, "ignore_eos": True}
        request = urllib.request.Request(
            f"{url}/v1/completions", json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] == 5
        with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as answer:
            (listed,) = json.load(answer)["data"]
        assert listed["max_model_len"] == 1024
        text = (tmp_path / "log").read_text()
        assert f"local_rank=0, core ids=[{CPU}]" in text
        assert "'max_num_seqs': 4" in text
    finally:
        log.close()
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def healthy(url):
    try:
        urllib.request.urlopen(f"{url}/health", timeout=5).close()
    except OSError:
        return False
    return True
