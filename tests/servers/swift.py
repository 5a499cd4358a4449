"""OpenStack Swift with its S3 API, whole in one process: one replica on one device, as Swift's own tests run it.

python -m tests.servers.swift FOLDER ACCESS_KEY_ID SECRET_ACCESS_KEY PORT PORT PORT PORT

``ACCESS_KEY_ID`` is ``account:user``. The first port is that of S3; Swift itself has to be on ``PYTHONPATH``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

KINDS = ("account", "container", "object")
FILTERS = ("catch_errors", "s3api", "tempauth", "copy", "slo", "dlo")


def _write_rings(folder: Path, ports: dict[str, int]) -> None:
    from swift.common.ring import RingBuilder

    for kind, port in ports.items():
        builder = RingBuilder(1, 1, 1)  # of two partitions, one replica, and an hour between moves
        device = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "disk", "weight": 1}
        builder.add_dev(device)
        builder.rebalance()
        builder.get_ring().save(str(folder / f"{kind}.ring.gz"))


def _config(folder: Path, kind: str, **settings: Any) -> str:
    lines = ["[DEFAULT]", f"swift_dir = {folder}", f"devices = {folder}", "mount_check = false", "log_level = ERROR"]
    filters = FILTERS if kind == "proxy" else ()
    lines += ["[pipeline:main]", f"pipeline = {' '.join(filters)} {kind}-server"]
    lines += [f"[app:{kind}-server]", f"use = egg:swift#{kind}"]
    if kind == "proxy":
        lines += ["account_autocreate = true"]
    for name in filters:
        lines += [f"[filter:{name}]", f"use = egg:swift#{name}"]
        lines += [f"{key} = {value}" for key, value in settings.get(name, {}).items()]
    path = folder / f"{kind}.conf"
    path.write_text("\n".join(lines))
    return str(path)


def main(folder: Path, access_key_id: str, secret: str, *ports: int) -> None:
    """Serve until the process is killed."""
    import eventlet
    from eventlet import wsgi

    eventlet.monkey_patch()
    (folder / "disk").mkdir()
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = one\n")
    from swift.common.utils import set_swift_dir
    from swift.common.wsgi import loadapp

    set_swift_dir(str(folder))
    _write_rings(folder, dict(zip(KINDS, ports[1:], strict=True)))
    user = f"user_{access_key_id.replace(':', '_')}"
    running = []
    for kind, port in zip(("proxy", *KINDS), ports, strict=True):
        settings = {"s3api": {"location": "us-east-1"}, "tempauth": {user: f"{secret} .admin"}}
        app = loadapp(_config(folder, kind, **settings))
        listening = eventlet.listen(("127.0.0.1", port))
        running.append(eventlet.spawn(wsgi.server, listening, app, log_output=False))
    for each in running:
        each.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
