"""What botocore knows of the services of AWS is the same when it is read sooner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import botocore.exceptions
import botocore.session
import pytest
from botocore.loaders import Loader

from singerlake.aws import service_models
from singerlake.aws.service_models import loader
from singerlake.aws.settings import S3Settings
from singerlake.storage.drivers.s3.client import in_session
from singerlake.storage.patience import Patience
from tests.fakes import FakeClock

SERVICES = ["s3", "dynamodb", "sqs", "sts", "sso", "sso-oidc"]
KINDS = ["service-2", "paginators-1", "endpoint-rule-set-1"]


def session(*, sooner: bool) -> Any:
    """One whose descriptions no other one reads: making a client changes them."""
    made = botocore.session.Session()
    paths = made.get_config_variable("data_path")
    theirs = Loader(extra_search_paths=[paths] if paths else None)
    made.register_component("data_loader", loader(theirs.search_paths) if sooner else theirs)
    return made


def described(service: str, kind: str, *, sooner: bool) -> Any:
    return session(sooner=sooner).get_component("data_loader").load_service_model(service, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("service", SERVICES)
def test_descriptions_are_the_same_and_in_the_same_order(service: str, kind: str) -> None:
    theirs, ours = (json.dumps(described(service, kind, sooner=sooner)) for sooner in (False, True))
    assert ours == theirs


@pytest.mark.parametrize("role", [None, "arn:aws:iam::123456789012:role/lake"])
def test_sessions_of_ours_read_them_so(monkeypatch: pytest.MonkeyPatch, role: str | None) -> None:
    made: list[Loader] = []

    def noted(paths: Sequence[str]) -> Loader:
        made.append(loader(paths))
        return made[-1]

    monkeypatch.setattr(service_models, "loader", noted)
    settings = S3Settings(access_key_id="any", secret_access_key="any", role_arn=role)
    in_session(
        settings,
        lambda found: found.create_client("s3", region_name="us-east-1"),
        Patience(60, FakeClock(), place="s3"),
    )
    assert len(made) == (2 if role else 1)


def test_a_service_that_is_not_there_is_refused() -> None:
    with pytest.raises(botocore.exceptions.UnknownServiceError, match="'nothing'"):
        session(sooner=True).create_client("nothing", region_name="us-east-1")


def test_a_folder_of_the_user_s_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    (tmp_path / "endpoints.json").write_text('{"version": 3, "partitions": []}')
    loader = session(sooner=True).get_component("data_loader")
    assert loader.load_data("endpoints")["partitions"] == []
    (tmp_path / "s3" / "2006-03-01").mkdir(parents=True)
    (tmp_path / "s3" / "2006-03-01" / "waiters-2.json").write_text('{"version": 2, "waiters": {}}')
    assert loader.load_service_model("s3", "waiters-2")["waiters"] == {}


@pytest.mark.parametrize("name", ["partitions.json", "partitions.json.gz"])
def test_what_is_no_json_is_refused_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    (tmp_path / name).write_bytes(b"{")
    said = []
    for sooner in (False, True):
        with pytest.raises((OSError, ValueError)) as caught:
            session(sooner=sooner).get_component("data_loader").load_data("partitions")
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
