"""What Meltano and the page on settings say about the plugins is what the plugins say about themselves."""

from __future__ import annotations

from typing import Any

import click
import pytest
import yaml

from tools import plugin_definitions as made


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": ["string", "null"]}, "string"),
        ({"type": "integer"}, "integer"),
        ({"type": ["number", "null"]}, "decimal"),
        ({"type": ["boolean"]}, "boolean"),
        ({"type": ["array", "null"]}, "array"),
        ({"type": ["null", "object"]}, "object"),
        ({"type": ["string", "object", "null"]}, "string"),
        ({"type": "string", "enum": ["a", "b"]}, "options"),
        ({}, "string"),
    ],
)
def test_types_become_kinds(schema: dict[str, Any], kind: str) -> None:
    assert made.kind(schema) == kind


@pytest.mark.parametrize(
    ("name", "schema", "label"),
    [
        ("lake_root", {}, "Lake root"),
        ("aws_role_arn", {}, "AWS role ARN"),
        ("s3_kms_key_id", {}, "S3 KMS key ID"),
        ("lake_root", {"title": "Root of the lake"}, "Root of the lake"),
    ],
)
def test_a_label_is_the_title_or_the_name_in_words(name: str, schema: dict[str, Any], label: str) -> None:
    assert made.label(name, schema) == label


def test_secrets_are_sensitive() -> None:
    schema = {"type": "string", "secret": True, "writeOnly": True, "description": "Half of\n  the key"}
    assert made.setting("aws_secret_access_key", schema) == {
        "name": "aws_secret_access_key",
        "label": "AWS secret access key",
        "kind": "string",
        "sensitive": True,
        "description": "Half of the key",
    }


def test_a_choice_lists_its_options_and_keeps_its_default() -> None:
    chosen = made.setting("store", {"type": ["string", "null"], "enum": ["x", "y", None], "default": "x"})
    assert chosen["options"] == [{"label": "x", "value": "x"}, {"label": "y", "value": "y"}]
    assert chosen["value"] == "x"


def test_a_plugin_gives_capabilities_settings_and_what_is_required() -> None:
    about = {
        "capabilities": ["state", "catalog"],
        "settings": {"properties": {"lake_root": {"type": "string"}}, "required": ["lake_root"]},
    }
    facts = made.singer_facts(about)
    assert facts["capabilities"] == ["catalog", "state"]
    assert facts["settings_group_validation"] == [["lake_root"]]
    assert [setting["name"] for setting in facts["settings"]] == ["lake_root"]


def test_the_table_shows_required_defaults_choices_and_secrets() -> None:
    facts = {
        "settings_group_validation": [["root"]],
        "settings": [
            {"name": "root", "label": "Root", "kind": "string", "description": "A path | a URL"},
            {"name": "store", "label": "S", "kind": "options", "options": [{"label": "x", "value": "x"}], "value": "x"},
            {"name": "key", "label": "Key", "kind": "string", "sensitive": True},
        ],
    }
    assert made.table(facts).splitlines()[2:] == [
        "| `root` | string | required | A path \\| a URL |",
        '| `store` | one of `x` | `"x"` | S |',
        "| `key` | secret |  | Key |",
    ]


def test_every_command_of_the_command_line_is_one_of_meltano() -> None:
    @click.group()
    def top() -> None: ...

    @top.command("ls", help="List what is there.")
    def ls() -> None: ...

    @top.group("lock")
    def lock() -> None: ...

    @lock.command("break", help="Remove a lock.")
    def break_() -> None: ...

    assert made.utility_facts(top)["commands"] == {
        "ls": {"args": "ls", "description": "List what is there."},
        "lock-break": {"args": "lock break", "description": "Remove a lock."},
    }


def test_what_a_pipeline_calls_has_a_short_name() -> None:
    @click.group()
    def top() -> None: ...

    @top.group("project")
    def project() -> None: ...

    @project.command("run", help="Make tables.")
    def run() -> None: ...

    told = {"args": "project run", "description": "Make tables."}
    assert made.utility_facts(top)["commands"] == {"project-run": told, "project": told}


@pytest.mark.parametrize("text", ["nothing marked", "# generated: a\n# end: a\n# generated: a\n# end: a\n"])
def test_marks_have_to_be_there_once(text: str) -> None:
    with pytest.raises(SystemExit, match="marked parts 'a', one is needed"):
        made.replace_marked(text, "a", "body", "file")


def test_marked_text_is_replaced_at_its_indentation_and_again_without_change() -> None:
    text = "x:\n  # generated: a, from b\n  old: 1\n  # end: a\n  # generated: ab\n  # end: ab\n"
    once = made.replace_marked(text, "a", "new:\n  - 2\n", "file")
    assert once == "x:\n  # generated: a, from b\n  new:\n    - 2\n  # end: a\n  # generated: ab\n  # end: ab\n"
    assert made.replace_marked(once, "a", "new:\n  - 2\n", "file") == once
    assert yaml.safe_load(once) == {"x": {"new": [2]}}
