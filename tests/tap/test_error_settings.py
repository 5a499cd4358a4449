"""Errors of the places that a run writes to: each names the setting or the variable that says where the place is."""

from __future__ import annotations

import errno
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageFullError
from singerlake.lake import Lake
from tap_singerlake import files
from tests.attached.lakes import attach
from tests.servers.s3 import ALWAYS, S3Server
from tests.tap.batch.support import batch_config
from tests.tap.runs import Output, replay

PLACES: dict[str, Any] = {"batch_config": batch_config, "include_files": str}


@pytest.fixture(params=PLACES)
def setting(request: pytest.FixtureRequest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    attach(lake, "tap-a", "photos", [[b"a photo"]])
    return str(request.param)


def failed(root: Path, setting: str, place: str, kind: type[SingerlakeError]) -> str:
    """What a run says that writes to ``place`` and fails; it passes on no STATE."""
    with pytest.raises(kind) as caught:
        replay(root, **{setting: PLACES[setting](place)})
    output: Output = caught.value.output  # type: ignore[attr-defined]
    assert output.of("BATCH") == output.of("STATE") == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, StorageFullError, "no space is left for {}; free space"),
        (errno.EACCES, AccessDeniedError, "permission denied in the folder of {0}; .*, or change {0}"),
    ],
    ids=["full", "denied"],
)
def test_what_a_disk_refuses_is_said_of_the_setting(
    setting: str,
    root: Path,
    tmp_path: Path,
    number: int,
    kind: type[SingerlakeError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, replace = tmp_path / "place", os.replace

    def refused(source: Any, target: Any, **more: Any) -> None:
        if str(target).startswith(str(place)):
            raise OSError(number, os.strerror(number))
        replace(source, target, **more)

    monkeypatch.setattr(os, "replace", refused)
    text = failed(root, setting, str(place), kind)
    assert re.search(rf"{said.format(setting)}.*{setting}='{place}'", text)
    assert "lake_root" not in text
    assert [path for path in place.rglob("*") if path.is_file() and path.name != ".singerlake.flock"] == []


def test_so_is_a_place_that_is_none(setting: str, root: Path) -> None:
    assert failed(root, setting, "http://example.com/x", SettingError).startswith(f"{setting} has an unknown scheme; ")


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, StorageFullError, "no space is left for the spool; free some, or set TMPDIR (TMPDIR='{}"),
        (errno.EACCES, AccessDeniedError, "the spool cannot be written; set TMPDIR (TMPDIR='{}"),
    ],
    ids=["full", "denied"],
)
def test_trouble_of_the_spool_names_the_variable_that_says_where_it_is(
    setting: str,
    root: Path,
    tmp_path: Path,
    number: int,
    kind: type[SingerlakeError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spool, opened = tmp_path / "spool", Path.open
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))

    def refused(self: Path, *arguments: Any, **more: Any) -> Any:
        if self.is_relative_to(spool):
            raise OSError(number, os.strerror(number), str(self))
        return opened(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refused)
    assert failed(root, setting, str(tmp_path / "place"), kind).startswith(said.format(spool))
    assert list(spool.iterdir()) == []


FAULTS: dict[str, Any] = {
    "lost": lambda s3: s3.drop_reply("PUT", key_contains="place/", times=2),
    "not sent": lambda s3: s3.drop_request("PUT", key_contains="place/", times=2),
    "busy": lambda s3: s3.fail("PUT", status=503, code="SlowDown", key_contains="place/", times=2),
    "busy after": lambda s3: s3.fail("PUT", status=503, code="SlowDown", key_contains="place/", times=2, after=True),
    "cut": lambda s3: s3.truncate(key_contains="lake/", times=2),
}


@pytest.fixture
def in_s3(setting: str, s3: S3Server) -> str:
    """A bucket with the same stream in a lake of its own, of which nothing is known yet."""
    bucket = s3.create_bucket(f"places-{random_id()}")
    attach(Lake.open(f"s3://{bucket}/lake", s3.settings()), "tap-a", "photos", [[b"a photo" * 1000], [b"b"]])
    return bucket


def run_in(bucket: str, setting: str, s3: S3Server) -> Output:
    return replay(f"s3://{bucket}/lake", **{setting: PLACES[setting](f"s3://{bucket}/place")}, **s3.config())


def written(bucket: str, s3: S3Server) -> list[tuple[str, bytes]]:
    """What is in the place, in the order of the names; those of batch files are new ones in each run."""
    listed = s3.client().list_objects_v2(Bucket=bucket, Prefix="place/").get("Contents", [])
    bodies = ((each["Key"], s3.client().get_object(Bucket=bucket, Key=each["Key"])["Body"].read()) for each in listed)
    return [("" if "batch" in key else key, body) for key, body in bodies]


def of_objects(s3: S3Server) -> int:
    """How many requests named an object. The first thread that misses one asks for the bucket, at times two do."""
    return sum("/lake/" in each.path or "/place/" in each.path for each in s3.requests())


@pytest.mark.crossed("setting", "fault")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bucket_has_all_whatever_happens_to_requests(setting: str, in_s3: str, s3: S3Server, fault: str) -> None:
    s3.calm()
    wanted_output, wanted = run_in(in_s3, setting, s3), written(in_s3, s3)
    undisturbed = of_objects(s3)
    for each in s3.client().list_objects_v2(Bucket=in_s3, Prefix="place/")["Contents"]:
        s3.client().delete_object(Bucket=in_s3, Key=each["Key"])
    s3.calm()
    FAULTS[fault](s3)
    output = run_in(in_s3, setting, s3)
    assert (output.state, written(in_s3, s3)) == (wanted_output.state, wanted)
    assert of_objects(s3) == undisturbed + 2
    assert len(wanted) == {"batch_config": 1, "include_files": 3}[setting]


def test_a_bucket_that_may_not_be_written_is_said_of_the_setting(setting: str, in_s3: str, s3: S3Server) -> None:
    s3.fail("PUT,POST", status=403, code="AccessDenied", times=ALWAYS, key_contains="place/")
    with pytest.raises(AccessDeniedError, match=f"{setting}='s3://{in_s3}/place'") as caught:
        run_in(in_s3, setting, s3)
    output: Output = caught.value.output  # type: ignore[attr-defined]
    assert output.of("BATCH") == output.of("STATE") == []
    # A file that was on its way beside the one that was refused still ends by itself.
    for thread in threading.enumerate():
        if thread.name == "singerlake-together":
            thread.join()
    s3.calm()
    assert written(in_s3, s3) == []
