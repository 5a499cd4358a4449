#!/bin/sh
# OpenStack Swift 2.38.3, s3api: PUT with If-None-Match: * is refused with 412 where the object is there, but of eight
# clients that create one at once several are told 200. PUT with If-Match is answered with 501.
set -eu
folder=$(mktemp -d); trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet swift==2.38.3 boto3
"$folder/venv/bin/python" -m pip freeze | grep -i "^swift=="
mkdir "$folder/disk"
cat > "$folder/swift.conf" <<'CONF'
[swift-hash]
swift_hash_path_suffix = x
[storage-policy:0]
name = one
CONF
cat > "$folder/server.py" <<'CODE'
import eventlet, sys
eventlet.monkey_patch()
from eventlet import wsgi
from swift.common.ring import RingBuilder
from swift.common.utils import set_swift_dir
from swift.common.wsgi import loadapp

folder = sys.argv[1]
set_swift_dir(folder)
sockets = {kind: eventlet.listen(("127.0.0.1", 0)) for kind in ("account", "container", "object", "proxy")}
FILTERS = "catch_errors s3api tempauth copy"
for kind, socket in sockets.items():
    port, filters = socket.getsockname()[1], FILTERS if kind == "proxy" else ""
    if kind != "proxy":
        builder = RingBuilder(1, 1, 1)
        builder.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "disk", "weight": 1})
        builder.rebalance()
        builder.get_ring().save(f"{folder}/{kind}.ring.gz")
    with open(f"{folder}/{kind}.conf", "w") as file:
        print(f"[DEFAULT]\nswift_dir={folder}\ndevices={folder}\nmount_check=false\nlog_level=CRITICAL", file=file)
        print(f"[pipeline:main]\npipeline={filters} {kind}-server", file=file)
        print(f"[app:{kind}-server]\nuse=egg:swift#{kind}", "account_autocreate=true" * bool(filters), sep="\n", file=file)
        for name in filters.split():
            print(f"[filter:{name}]\nuse=egg:swift#{name}", "user_a_b=secret .admin" * (name == "tempauth"), sep="\n", file=file)
running = [eventlet.spawn(wsgi.server, socket, loadapp(f"{folder}/{kind}.conf"), log_output=False) for kind, socket in sockets.items()]
print(sockets["proxy"].getsockname()[1], flush=True)
for each in running:
    each.wait()
CODE
"$folder/venv/bin/python" -W ignore "$folder/server.py" "$folder" > "$folder/port" 2> "$folder/log" & server=$!
until test -s "$folder/port"; do sleep 0.2; kill -0 $server; done
cat > "$folder/client.py" <<'CODE'
import sys
from concurrent.futures import ThreadPoolExecutor
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

keys = {"aws_access_key_id": "a:b", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
once = Config(retries={"total_max_attempts": 1}, max_pool_connections=8)
s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}", config=once, **keys)
s3.create_bucket(Bucket="bucket")

def status(key, **condition):
    try:
        return s3.put_object(Bucket="bucket", Key=key, Body=b"x", **condition)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]

first, second = status("one", IfNoneMatch="*"), status("one", IfNoneMatch="*")
changed = status("one", IfMatch=s3.head_object(Bucket="bucket", Key="one")["ETag"])
with ThreadPoolExecutor(8) as pool:
    winners = [list(pool.map(lambda _: status(f"race-{n}", IfNoneMatch="*"), range(8))).count(200) for n in range(10)]
print(f"create: {first}, again: {second}, If-Match: {changed}; eight at once, succeeded: {winners}")
assert (first, second, changed) == (200, 412, 501)
assert max(winners) > 1
CODE
"$folder/venv/bin/python" "$folder/client.py" "$(cat "$folder/port")"
