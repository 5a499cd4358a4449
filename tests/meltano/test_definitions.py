"""Meltano takes the plugin definitions as they are: in the project's own file, and by ``meltano add --from-ref``."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.meltano.project import ROOT, Project

PLUGINS = {"tap-singerlake": "extractors", "target-singerlake": "loaders", "singerlake": "utilities"}


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "plugins" / f"{name}.yml").read_text())
    return found


def test_the_project_file_is_valid_by_the_schema_of_meltano() -> None:
    schema = json.loads((files("meltano.schemas") / "meltano.schema.json").read_text())
    # A capability of singer-sdk that Meltano takes, but its schema does not list.
    loaders = schema["$defs"]["plugins"]["loaders"]["allOf"][1]["properties"]
    loaders["capabilities"]["items"]["enum"].append("validate-records")
    jsonschema.validate(yaml.safe_load((ROOT / "meltano.yml").read_text()), schema)


@pytest.mark.sampled(name=1)
@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_is_added_from_its_definition_with_all_its_settings(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path)
    (tmp_path / "meltano.yml").write_text("default_environment: test\nenvironments:\n  - name: test\n")
    added = project.meltano("add", "--no-install", "--from-ref", str(ROOT / "plugins" / f"{name}.yml"), name)
    assert added.returncode == 0, added.stdout
    assert name in [
        plugin["name"] for plugin in yaml.safe_load((tmp_path / "meltano.yml").read_text())["plugins"][PLUGINS[name]]
    ]

    listed = project.meltano("config", "list", "--all", name)
    assert listed.returncode == 0, listed.stdout
    for setting in definition(name)["settings"]:
        assert f"{name.replace('-', '_').upper()}_{setting['name'].upper()}" in listed.stdout


@pytest.mark.parametrize("name", PLUGINS)
def test_every_secret_is_sensitive_and_every_setting_described(name: str) -> None:
    settings = definition(name)["settings"]
    secrets = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
    secrets |= {f"azure_{each}" for each in ("account_key", "sas_token", "connection_string", "client_secret")}
    secrets.add("gcs_service_account_json")
    if name != "tap-singerlake":  # which reads what is on the lake
        secrets |= {"postgres_url"}
    assert {setting["name"] for setting in settings if setting.get("sensitive")} == secrets
    assert [setting["name"] for setting in settings if not (setting.get("description") and setting.get("label"))] == []


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    shown = (
        Project(tmp_path)
        .create()
        .meltano("config", "list", "target-singerlake", TARGET_SINGERLAKE_AWS_SECRET_ACCESS_KEY="do-not-show-me")
    )
    assert shown.returncode == 0
    assert "TARGET_SINGERLAKE_AWS_SECRET_ACCESS_KEY" in shown.stdout
    assert "do-not-show-me" not in shown.stdout
