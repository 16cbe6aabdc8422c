"""KServe's LLMInferenceService, whose template runs ``vllm serve`` with the measured arguments.

Read from KServe 0.18 to 0.20: the container `main` evaluates VLLM_ADDITIONAL_ARGS in a shell after
the model, which KServe downloads to /mnt/models.
"""

from __future__ import annotations

import shlex
from typing import Any

from ..errors import AskError
from .images import container
from .kubernetes import env_list, pod_env, resources, rights
from .served import Served
from .writing import filled, heading, yaml_of


def kserve(served: Served, *, api_version: str = "v1alpha1") -> str:
    """One document; KServe 0.18 to 0.20 serves both v1alpha1 and v1alpha2.

    Raises AskError for another engine than vLLM, or where the environment names files of the
    measured host.
    """
    if served.config.engine != "vllm":
        raise AskError(
            f"KServe's LLMInferenceService runs vLLM, not {served.config.engine}: use --to k8s"
        )
    inside = container(served)
    if inside.packages:
        raise AskError(
            f"the official image lacks {', '.join(inside.packages)}, and KServe's template "
            "sets no other one's LD_PRELOAD: use --to dockerfile and --to k8s"
        )
    env, remarks = pod_env(served, inside.env)
    words = env | {"VLLM_ADDITIONAL_ARGS": shlex.join(served.arguments)}
    main = filled({
        "name": "main",
        "image": inside.image,
        "env": [e for e in env_list(served, words) if "value" in e],
        "resources": resources(served),
        # The official images run as root, which the template forbids.
        "securityContext": {"runAsNonRoot": False, **rights(served)},
        # Handler and scheme are the template's; weights and compilation may take minutes.
        "startupProbe": {"periodSeconds": 10, "failureThreshold": served.start_s // 10},
    })  # fmt: skip
    template = filled({
        "nodeSelector": {"kubernetes.io/arch": served.arch} if served.arch else {},
        "containers": [main],
    })  # fmt: skip
    document: dict[str, Any] = {
        "apiVersion": f"serving.kserve.io/{api_version}",
        "kind": "LLMInferenceService",
        "metadata": {"name": served.name},
        "spec": {
            "model": {"uri": _uri(served), "name": _name(served)},
            "replicas": 1,
            "router": {"gateway": {}, "route": {}},
            "template": template,
        },
    }
    return heading(served, *inside.remarks, *remarks, *_notes(served)) + yaml_of(document)


def _uri(served: Served) -> str:
    if not served.is_local:
        return f"hf://{served.model}"
    return f"pvc://{served.name}/{served.folder.rstrip('/').rpartition('/')[2]}"


def _name(served: Served) -> str:
    return served.folder.rpartition("/")[2] if served.is_local else served.model


def _notes(served: Served) -> list[str]:
    notes = ["KServe adds the model, its served names, port and TLS to the measured arguments."]
    if served.is_local:
        notes.append(f"Copy {served.folder} into the claim {served.name}, as a folder of its own.")
    return notes
