"""A systemd unit that runs the measured command on a host like the measured one."""

from __future__ import annotations

from .images import FRONTS
from .served import Served
from .writing import heading


def systemd(served: Served) -> str:
    """NAME.service. Its words are quoted as systemd.syntax(7) and systemd.service(5) have it."""
    port = str(FRONTS[served.config.engine].own_port)
    words = [*served.config.argv, "--host", "127.0.0.1", "--port", port]
    home = served.name
    lines = [
        heading(served, *_how(served)).rstrip(),
        "[Unit]",
        f"Description=NeoServe {served.config.engine} {served.name.removeprefix('neoserve-')}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        # With a colon nothing replaces $NAME.
        "ExecStart=:" + " ".join(map(_quoted, words)),
        *(f"Environment={_quoted(f'{k}={v}')}" for k, v in served.config.env.items()),
        # A user without a home: caches of compiled graphs and downloads go here.
        *([] if "HOME" in served.config.env else [f"Environment=HOME=/var/cache/{home}"]),
        *([f"CPUAffinity={served.cpus}"] if served.cpus else []),
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=65536",
        "Restart=on-failure",
        "RestartSec=5",
        # Engines finish requests in flight, vLLM's workers take a while.
        "TimeoutStopSec=60",
        "DynamicUser=yes",
        f"CacheDirectory={home}",
        f"WorkingDirectory=/var/cache/{home}",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=strict",
        "ProtectControlGroups=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "RestrictSUIDSGID=yes",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _how(served: Served) -> tuple[str, ...]:
    unit = f"{served.name}.service"
    return (
        f"Use it: copy it to /etc/systemd/system/{unit}, then systemctl enable --now {unit}",
        "It runs as a user of its own: program and model have to be readable by all, "
        "or give it User= instead of DynamicUser=.",
    )


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_specifiers(escaped)}"'


def _specifiers(text: str) -> str:
    """%i and its like would be replaced."""
    return text.replace("%", "%%")
