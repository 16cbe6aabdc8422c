"""Kubernetes: a claim for the model, a Deployment of one replica, a Service."""

from __future__ import annotations

from typing import Any

from ..units import parse_cpus
from .images import CACHE, Container, container
from .served import Served, memory_gib
from .writing import filled, heading, yaml_of

_STORAGE = "50Gi"


def kubernetes(served: Served) -> str:
    """Three documents. Raises AskError where the environment names files of the measured host.

    CPU and memory requests equal their limits and CPUs are whole, so that a node with the static
    CPU manager gives the pod CPUs of its own.
    """
    inside = container(served)
    env, remarks = pod_env(served, inside.env)
    notes = (*inside.remarks, *remarks, *_notes(served, inside))
    return heading(served, *notes) + yaml_of(
        _claim(served), _deployment(served, inside, env), _service(served, inside)
    )


def pod_env(served: Served, env: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """A pod's CPUs have other numbers: as many threads, bound by vLLM to those that it finds."""
    bind = env.get("VLLM_CPU_OMP_THREADS_BIND", "auto")
    if bind in ("auto", "nobind"):
        return env, ()
    if "|" in bind or not served.num_cpus:
        return env, (f"VLLM_CPU_OMP_THREADS_BIND={bind} names CPUs of the measured host: it needs "
                     "a node whose pods may run on all CPUs.",)  # fmt: skip
    reserved = max(0, served.num_cpus - len(set(parse_cpus(bind))))
    auto = {"VLLM_CPU_OMP_THREADS_BIND": "auto", "VLLM_CPU_NUM_OF_RESERVED_CPU": str(reserved)}
    return env | auto, (
        f"VLLM_CPU_OMP_THREADS_BIND={bind} named CPUs of the measured host; here it is auto with "
        f"{reserved} reserved: as many threads, on the CPUs that the pod gets.",
    )


def resources(served: Served) -> dict[str, Any]:
    """Limits, and requests that are equal to them."""
    memory = memory_gib(served)
    amounts = filled({
        "cpu": str(served.num_cpus) if served.num_cpus else "",
        "memory": f"{memory}Gi" if memory else "",
        "nvidia.com/gpu": str(served.num_gpus) if served.num_gpus else "",
    })  # fmt: skip
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}


def env_list(served: Served, env: dict[str, str]) -> list[dict[str, Any]]:
    """As containers take it, with an optional token where the model is downloaded."""
    found: list[dict[str, Any]] = [{"name": k, "value": escaped(v)} for k, v in env.items()]
    if not served.is_local:
        key = {"name": "huggingface", "key": "token", "optional": True}
        found.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}})
    return found


def escaped(word: str) -> str:
    """$(NAME) would be replaced, and $$ is one dollar."""
    return word.replace("$", "$$")


def rights(served: Served) -> dict[str, Any]:
    """Binding memory to NUMA nodes takes SYS_NICE: set_mempolicy and mbind."""
    needs = served.device == "cpu" and served.config.engine != "llama.cpp"
    return {"capabilities": {"add": ["SYS_NICE"]}} if needs else {}


def _notes(served: Served, inside: Container) -> list[str]:
    notes = []
    if served.is_local:
        notes.append(f"Copy what is in {served.folder} into the claim {served.name} first.")
    if inside.packages:
        notes.append(f"Build {_image(served, inside)} from the Dockerfile and push it.")
    if served.num_cpus:
        notes.append(
            "CPUs and memory are the measured ones (of the memory nine tenths); CPUs are the "
            "pod's own on a node with cpuManagerPolicy static."
        )
    else:
        notes.append("The CPUs that it was measured on are not known: set cpu and memory.")
    return notes


def _labels(served: Served) -> dict[str, str]:
    return {"app.kubernetes.io/name": served.name}


def _meta(served: Served) -> dict[str, Any]:
    return {"name": served.name, "labels": _labels(served)}


def _claim(served: Served) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(served),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": _STORAGE}},
        },
    }


def _image(served: Served, inside: Container) -> str:
    return f"registry.example.com/{served.name}:measured" if inside.packages else inside.image


def _deployment(served: Served, inside: Container, env: dict[str, str]) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http"}}
    main = {
        "name": "engine",
        "image": _image(served, inside),
        "command": [escaped(word) for word in inside.entrypoint],
        "args": [escaped(word) for word in inside.command],
        "env": env_list(served, env),
        "ports": [{"name": "http", "containerPort": inside.port}],
        # Weights and compilation may take minutes before /health answers.
        "startupProbe": {**health, "periodSeconds": 10, "failureThreshold": served.start_s // 10},
        "readinessProbe": {**health, "periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 15, "timeoutSeconds": 10,
                          "failureThreshold": 4},
        "resources": resources(served),
        "securityContext": rights(served),
        "volumeMounts": _mounts(served),
    }  # fmt: skip
    pod = {
        "nodeSelector": {"kubernetes.io/arch": served.arch} if served.arch else {},
        "containers": [filled(main)],
        "volumes": _volumes(served),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(served),
        "spec": {
            "replicas": 1,
            # Two at once would not find CPUs, GPUs or the claim.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _labels(served)},
            "template": {"metadata": {"labels": _labels(served)}, "spec": filled(pod)},
        },
    }


def _mounts(served: Served) -> list[dict[str, Any]]:
    shared = {"name": "shm", "mountPath": "/dev/shm"}
    if not served.is_local:
        return [{"name": "models", "mountPath": CACHE}, shared]
    model = {"name": "models", "mountPath": served.folder, "readOnly": True}
    return [model, *([{"name": "cache", "mountPath": CACHE}] if served.compiles else []), shared]


def _volumes(served: Served) -> list[dict[str, Any]]:
    claim = {"name": "models", "persistentVolumeClaim": {"claimName": served.name}}
    shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}
    has_cache = served.is_local and served.compiles
    return [claim, *([{"name": "cache", "emptyDir": {}}] if has_cache else []), shared]


def _service(served: Served, inside: Container) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(served),
        "spec": {
            "selector": _labels(served),
            "ports": [{"name": "http", "port": inside.port, "targetPort": "http"}],
        },
    }
