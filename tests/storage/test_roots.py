"""What a lake root names, and what is refused because it could only be meant as something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.storage.roots import CloudRoot, FolderRoot, parse_root


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("lake", "lake"),
        ("lake/", "lake"),
        ("/data/lake//", "/data/lake"),
        ("file:///data/x", "/data/x"),
        ("file:/data/x", "/data/x"),
        ("FILE:///data/x", "/data/x"),
        ("file:////data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("file:///x%20y%3Fz", "/x y?z"),
        ("file:///caf%C3%A9", "/café"),
        ("file:///%ff", "/" + os.fsdecode(b"\xff")),
        ("/data/a%20b", "/data/a%20b"),
        ("/data/s3:/x", "/data/s3:/x"),
        ("./s3:/bucket", "s3:/bucket"),
        ("./a\\b", "a\\b"),
        ("v1:2024/x", "v1:2024/x"),
        ("s3", "s3"),
        ("s3/x", "s3/x"),
    ],
)
def test_paths_and_file_urls_name_folders(text: str, folder: str) -> None:
    assert parse_root(text) == FolderRoot(Path(folder))


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("S3://bucket/a/b/", "bucket", "a/b"),
        ("s3://my.bucket_1//a", "my.bucket_1", "a"),
        ("s3://bucket/a%20b", "bucket", "a%20b"),
        ("s3://bucket/a#b?", "bucket", "a#b?"),
    ],
)
def test_s3_urls_name_a_bucket_and_a_prefix_as_it_stands(text: str, bucket: str, prefix: str) -> None:
    assert parse_root(text) == CloudRoot("s3", bucket, prefix)


@pytest.mark.parametrize(
    ("text", "problem", "form"),
    [
        ("", "empty", "file:///folder"),
        ("  ", "empty", "file:///folder"),
        ("file://lake", "another host", "write file:///folder"),
        ("file://lake/data/x", "another host", "write file:///folder"),
        ("file://~/lake", "another host", "write file:///folder"),
        ("file://./lake", "another host", "write file:///folder"),
        ("file:lake", "not a complete file URL", "write file:///folder"),
        ("file:", "not a complete file URL", "write file:///folder"),
        ("file://", "without a folder", "write file:///folder"),
        ("file://localhost", "without a folder", "write file:///folder"),
        ("file:///x?versionId=1", "query", "%3F"),
        ("file:///x#y", "fragment", "%23"),
        ("file:///100%", "hexadecimal", "%25"),
        ("file:///a%0Ab", "control character", "remove"),
        ("s3:/bucket", "not a complete s3 URL", "write s3://bucket/prefix"),
        ("s3:bucket", "not a complete s3 URL", "write s3://bucket/prefix"),
        ("s3:", "not a complete s3 URL", "write s3://bucket/prefix"),
        ("s3//bucket", "lacks the colon", "write s3://bucket/prefix"),
        ("s3://", "no bucket", "write s3://bucket/prefix"),
        ("s3:///prefix", "no bucket", "write s3://bucket/prefix"),
        ("s3://my bucket/x", "a bucket name that S3 does not allow", "write s3://bucket/prefix"),
        ("s3://bucket\\x", "a bucket name that S3 does not allow", "write s3://bucket/prefix"),
        ("s3://$BUCKET/x", "a bucket name that S3 does not allow", "write s3://bucket/prefix"),
        ("s3://bucket/x?region=eu", "with a query", "s3_endpoint_url"),
        ("s3a://bucket/x", "scheme", "write s3://bucket/prefix"),
        ("s3n://bucket/x", "scheme", "write s3://bucket/prefix"),
        ("s3a:bucket", "scheme", "write s3://bucket/prefix"),
        ("r2://bucket", "scheme", "s3://bucket/prefix"),
        ("abfss://c@a.example/x", "complete abfss URL", "abfss://container@account"),
        ("hdfs://c@a.example/x", "scheme", "s3://bucket/prefix"),
        ("dbfs:/lake", "scheme", "./name"),
        ("http://example.org/x", "scheme", "s3_endpoint_url"),
        ("HTTPS://example.org/x", "scheme", "s3_endpoint_url"),
        ("://x", "colon", "./name"),
        ("C:\\lake", "Windows", "./name"),
        ("C:/lake", "Windows", "./name"),
        ("\\\\server\\share", "Windows", "./name"),
        ("s3:\\\\bucket", "Windows", "./name"),
        ("folder\\lake", "Windows", "./name"),
        (" lake", "white space", "remove"),
        ("lake /", "white space", "rename"),
        ("file:///x/lake%20/", "white space", "rename"),
        ("s3://bucket/x\n", "white space", "remove"),
        ("la\nke", "control character", "remove"),
        ("s3://bucket/a\tb", "control character", "remove"),
        ("la\0ke", "control character", "remove"),
        ("$NOT_SET/lake", "variable", "set the variable"),
        ("s3://b/${PREFIX}/x", "variable", "set the variable"),
        ("~nobody-has-this-name/lake", "home folder", "whole path"),
    ],
)
def test_what_could_only_be_meant_as_something_else_is_refused(text: str, problem: str, form: str) -> None:
    with pytest.raises(SettingError, match=r"^lake_root") as raised:
        parse_root(text)
    assert problem in raised.value.message
    assert form in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "s3://user:PASSWORD@bucket/x",
        "s3://PASSWORD@bucket",
        "s3://AKIA:PASS/PASSWORD@bucket",
        "s3://bucket/x?secret=PASSWORD",
        "s3:/AKIA:PASSWORD@bucket",
        "s3:AKIA:PASSWORD@bucket",
        "s3a://AKIA:PASSWORD@bucket/x",
        "https://user:PASSWORD@host/bucket",
        "file://user:PASSWORD@host/x",
        "AKIA:PASSWORD@bucket/x",
        "s3://AKIA:PASSWORD@bucket/${X}",
        "s3://AKIA:PASSWORD@bucket\n",
    ],
)
def test_credentials_in_a_root_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SettingError, match=r"^lake_root") as raised:
        parse_root(text)
    assert "PASS" not in str(raised.value)


@pytest.mark.parametrize("text", ["gs://lake/a/b/", "GS://lake/a/b"])
def test_a_bucket_of_google_is_a_root(text: str) -> None:
    assert parse_root(text) == CloudRoot("gs", "lake", "a/b")


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("az://lake", CloudRoot("az", "lake", "")),
        ("AZ://lake/a/b/", CloudRoot("az", "lake", "a/b")),
        (
            "abfss://lake@acct.dfs.core.windows.net/a",
            CloudRoot("az", "lake", "a", "acct.dfs.core.windows.net"),
        ),
        ("abfs://lake@acct.blob.core.chinacloudapi.cn", CloudRoot("az", "lake", "", "acct.blob.core.chinacloudapi.cn")),
    ],
)
def test_a_container_of_azure_is_a_root(text: str, root: CloudRoot) -> None:
    assert parse_root(text) == root


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gs://", "names no bucket"),
        ("gs://a b", "Google Cloud Storage does not allow"),
        ("gs://user:PASSWORD@lake", "credentials or a port"),
        ("gs://lake/x?token=PASSWORD", "URL with a query"),
        ("gcs://lake", "unknown scheme|not a complete"),
        ("az://", "names no container"),
        ("az:/lake", "not a complete az URL"),
        ("az://Lake/x", "container name that Azure does not allow"),
        ("az://a--b", "container name that Azure does not allow"),
        ("az://user:PASSWORD@lake", "credentials or a port"),
        ("az://lake/x?sig=PASSWORD", "URL with a query"),
        ("abfss://lake/x", "not a complete abfss URL"),
        ("abfss://lake@example.org/x", "not a complete abfss URL"),
        ("abfss://@acct.dfs.core.windows.net/x", "names no container"),
        ("wasbs://lake@acct.blob.core.windows.net", "unknown scheme|not a complete"),
    ],
)
def test_what_names_no_container_is_refused_and_not_shown(text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem) as raised:
        parse_root(text)
    assert "PASS" not in str(raised.value)


def test_a_root_with_credentials_says_where_they_belong() -> None:
    with pytest.raises(SettingError, match=r"holds credentials or a port; .*aws_access_key_id.*s3_endpoint_url"):
        parse_root("s3://host:9000/bucket")


@given(st.text(alphabet="/:.~s3file\\%@?#$ \naéC", max_size=12))
def test_any_text_is_a_root_or_a_setting_error(text: str) -> None:
    """What was taken once is taken again as the absolute path it names: tasks and processes open a lake by that."""
    try:
        found = parse_root(text)
    except SettingError:
        return
    if isinstance(found, FolderRoot):
        absolute = Path(os.path.abspath(found.path))
        assert parse_root(str(absolute)) == FolderRoot(absolute)
