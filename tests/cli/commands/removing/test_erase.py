"""``singerlake erase`` and ``verify --erased``: what they say, what they take out of the lake, and what they leave."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.upkeep.test_gc import data_files
from tests.cli.commands.upkeep.test_vacuum import everything
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server

SCHEMA = {"properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}
KIM = "email = 'kim@example.com'"


def people(lake: Lake, stream: str = "people") -> None:
    """Nine records in three files, every third one Kim's."""
    names = ("kim", "lee", "ana")
    records = [{"id": n, "email": f"{names[n % 3]}@example.com"} for n in range(9)]
    build_stream(lake, "crm", stream, SCHEMA, records, file_size=4, member_size=2, key_properties=("id",))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    people(lake)
    return lake


@pytest.fixture
def root(lake: Lake, tmp_path: Path) -> Path:
    return tmp_path / "lake"


def ids(lake: Lake, stream: str = "people") -> list[int]:
    """The ids of the records that a reader finds, in order."""
    return Lake.open(lake.storage.url).stream("crm", stream).to_arrow().read_all().column("id").to_pylist()


def erase(run: Run, root: Path | str, *more: str, where: str = KIM) -> list[str]:
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", where, *more)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_without_delete_it_names_all_and_changes_nothing(run: Run, lake: Lake, root: Path) -> None:
    before = everything(root)
    told = erase(run, root)
    assert everything(root) == before
    assert told[0] == "crm/people: 3 records would be erased in 2 of 3 files"
    assert [line.rpartition(": ")[2] for line in told[1:]] == ["2 records", "1 record"]
    assert {line.strip().rpartition(": ")[0] for line in told[1:]} <= set(before)


def test_with_delete_no_reader_finds_them_and_gc_takes_the_rest(run: Run, lake: Lake, root: Path) -> None:
    files = data_files(root)
    assert erase(run, root, "--delete") == [
        "crm/people: 3 records erased in 2 of 3 files",
        "  3 records are still in 2 files until 'singerlake gc --delete' has run twice, a grace time apart",
    ]
    assert ids(lake) == [1, 2, 4, 5, 7, 8]
    assert set(files) < set(data_files(root))
    found = run("verify", root, "--erased", KIM)
    assert (found.exit_code, found.stdout.count("that should be erased")) == (1, 2)
    for _ in range(2):
        assert run("gc", root, "--delete", "--grace", "0s").exit_code == 0
    assert len(data_files(root)) == 3
    assert run("verify", root, "--erased", KIM).stdout == "sound: 1 stream, 3 files, 9 messages, {}\n".format(
        run("verify", root).stdout.rpartition(", ")[2].strip()
    )


def test_with_now_nothing_of_them_is_left(run: Run, lake: Lake, root: Path) -> None:
    told = erase(run, root, "--delete", "--now")
    assert told[0] == "crm/people: 3 records erased in 2 of 3 files"
    assert told[1].startswith("  deleted: 2 files (")
    assert len(told) == 2
    assert len(data_files(root)) == 3
    assert run("verify", root, "--erased", KIM).exit_code == 0
    assert ids(lake) == [1, 2, 4, 5, 7, 8]


def test_now_deletes_no_other_retired_file(run: Run, lake: Lake, root: Path) -> None:
    assert run("vacuum", "--yes", root).exit_code == 0
    before = set(data_files(root))
    told = erase(run, root, "--delete", "--now", where="id = 3")
    assert told[0].startswith("crm/people: 1 record erased in 1 of ")
    # The joined file, and the small one that held the record; the other small one waits for gc.
    assert len(before - set(data_files(root))) == 2
    assert len(before & set(data_files(root))) >= 1


def test_again_there_is_nothing_to_do(run: Run, lake: Lake, root: Path) -> None:
    erase(run, root, "--delete", "--now")
    before = everything(root)
    assert erase(run, root, "--delete") == ["crm/people: 0 records erased in 0 of 3 files"]
    assert everything(root) == before


def test_values_of_a_file_that_nobody_has_are_counted(run: Run, root: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("kim@example.com\nnobody@example.com\nno-one@example.com\n")
    told = erase(run, root, where=f"email in @{keys}")
    assert told[0] == "crm/people: 3 records would be erased in 2 of 3 files"
    assert told[-1] == "  no record holds 2 of 3 values"


def test_the_run_is_noted_and_the_files_say_who(run: Run, lake: Lake, root: Path) -> None:
    erase(run, root, "--delete")
    line = next(line for line in run("status", root).stdout.splitlines() if " erase " in line)
    assert line.split()[6:9] == ["completed", "2", "3"]
    stream = Lake.open(str(root)).stream("crm", "people")
    manifest = stream.snapshot()
    assert features_of(manifest) == ("erased",)
    told = [provenance for file in manifest.files if (provenance := stream.provenance(file))]
    assert [(records, "@" in who) for each in told for _, records, _, who in each.erased] == [(2, True), (1, True)]


def test_a_user_whose_name_is_no_text_may_erase(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "k\udcffm")
    erase(run, root, "--delete")
    stream = lake.stream("crm", "people")
    told = [said for file in stream.snapshot().files if (said := stream.provenance(file)) is not None]
    assert {who.partition("@")[0] for each in told for *_, who in each.erased} == {"k?m"}


def test_json(run: Run, lake: Lake, root: Path) -> None:
    where = ("--tap", "crm", "--stream", "people", "--where", "email in ('kim@example.com', 'x')", "--json")
    whole = json.loads(run("erase", root, *where).stdout)
    [dry] = whole["streams"]
    assert (whole["dry_run"], dry["records"], dry["values_held"], dry["left"]) == (True, 3, [0], [])
    assert [each["records"] for each in dry["files"]] == [2, 1]
    whole = json.loads(run("erase", root, *where, "--delete").stdout)
    [done] = whole["streams"]
    assert (whole["dry_run"], done["records"], done["looked"]["files"]) == (False, 3, 3)
    assert sorted((each["records"], each["retired"]) for each in done["left"]) == [(1, True), (2, True)]
    assert json.loads(run("verify", root, "--json", "--erased", KIM).stdout)["findings"][0]["kind"] == "erased"


def test_a_file_that_nothing_lists_is_named(run: Run, lake: Lake, root: Path) -> None:
    path = root / "raw/crm/people" / lake.stream("crm", "people").snapshot().files[0].path
    stray = path.with_name(path.name.rpartition("-")[0] + "-0000000000000000.singer.gz")
    stray.write_bytes(path.read_bytes())
    told = erase(run, root, "--delete", "--now")
    assert any("which nothing lists: a run at work may; see 'singerlake gc --orphans'" in line for line in told)
    assert any(stray.name in line for line in told)
    assert stray.exists()
    assert run("verify", root, "--ignore", "unlisted", "--erased", KIM).exit_code == 1


def test_other_objects_in_the_folder_are_looked_into(run: Run, lake: Lake, root: Path) -> None:
    erase(run, root, "--delete", "--now")
    folder = root / "raw/crm/people"
    (folder / "notes.txt").write_text("kim@example.com")
    found = run("verify", root, "--erased", KIM)
    assert (found.exit_code, "notes.txt: cannot be read to its end: " in found.stdout) == (1, True)


def test_a_damaged_file_is_reported_and_the_others_are_done(run: Run, lake: Lake, root: Path) -> None:
    path = root / "raw/crm/people" / lake.stream("crm", "people").snapshot().files[0].path
    path.write_bytes(path.read_bytes()[:-4])
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", KIM, "--delete")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "crm/people: 1 record erased in 1 of 3 files")
    assert "broken: " in result.stdout


AT = {"properties": {"id": {"type": "integer"}, "at": {"type": ["null", "string"], "format": "date-time"}}}
TIMES = ["2019-12-31T23:30:00-02:00", "2020-01-01T00:30:00+01:00", "2019-12-31 23:59:59.999999Z", "unknown", None]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("at < '2020-01-01T00:00:00Z'", [0, 3, 4]),
        ("at = '2019-12-31T23:30:00Z'", [0, 2, 3, 4]),
        ("at not in ('2019-12-31T23:30:00Z', 'unknown')", [1, 3, 4]),
        ("at is null", [0, 1, 2, 3]),
        ("id >= 1 and id != 3", [0, 3]),
    ],
)
def test_times_are_compared_as_moments_and_nothing_else_is_erased(
    run: Run, lake: Lake, root: Path, where: str, left: list[int]
) -> None:
    records = [{"id": number, "at": at} for number, at in enumerate(TIMES)]
    build_stream(lake, "crm", "visits", AT, records, key_properties=("id",))
    command = ("--tap", "crm", "--stream", "visits")
    assert run("erase", root, *command, "--where", where, "--delete", "--now").exit_code == 0
    assert ids(lake, "visits") == left
    assert run("verify", root, *command, "--erased", where).exit_code == 0
    refused = run("erase", root, *command, "--where", "at < '2020'")
    assert (refused.exit_code, "write a time as '2026-01-31T00:00:00Z'" in refused.stderr) == (2, True)


def test_only_the_named_stream_is_touched(run: Run, lake: Lake, root: Path) -> None:
    people(lake, "others")
    erase(run, root, "--delete")
    assert (ids(lake), ids(lake, "others")) == ([1, 2, 4, 5, 7, 8], list(range(9)))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--tap", "crm", "--stream", "people", "--where", "email like 'a'"], 2, "error: not a condition"),
        (["--tap", "crm", "--stream", "people", "--where", "id in @no/such/file"], 2, "no such file or directory"),
        (["--tap", "crm", "--stream", "nobody", "--where", KIM], 2, "has no stream 'nobody'"),
        (["--tap", "cry", "--stream", "people", "--where", KIM], 2, "no tap 'cry'"),
        (["--tap", "crm", "--stream", "people", "--where", KIM, "--now"], 2, "--now needs --delete"),
        (["--tap", "crm", "--where", "emial = 1"], 2, "did you mean 'email'"),
        (["--tap", "crm", "--stream", "people"], 2, "Missing option '--where'"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, root: Path, arguments: list[str], code: int, says: str) -> None:
    before = everything(root)
    result = run("erase", root, *arguments, "--delete") if "--now" not in arguments else run("erase", root, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert everything(root) == before


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("emial = 'kim@example.com'", "declares 'emial'; did you mean 'email', declared by v1? give --undeclared if"),
        ("email = 5", "'email' is compared with a number, and is declared as string by v1"),
        ("email = 'kim@example.com' and id = '0'", "'id' is compared with text, and is declared as integer by v1"),
    ],
)
def test_a_condition_that_can_hold_for_no_record_is_refused_unless_asked_for(
    run: Run, root: Path, where: str, says: str
) -> None:
    for command in (
        ("erase", root, "--tap", "crm", "--stream", "people", "--delete", "--where", where),
        ("verify", root, "--erased", where),
    ):
        refused = run(*command)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert says in refused.stderr
        assert "give --undeclared if records have it all the same" in refused.stderr
        assert run(*command, "--undeclared").exit_code == 0
    alone = run("verify", root, "--undeclared")
    assert (alone.exit_code, "--undeclared is given without --erased" in alone.stderr) == (2, True)


def test_verify_looks_into_all_streams_if_one_declares_the_property(run: Run, lake: Lake, root: Path) -> None:
    build_stream(lake, "crm", "orders", {"properties": {"no": {"type": "integer"}}}, [{"no": 1}])
    found = run("verify", root, "--erased", KIM)
    assert (found.exit_code, found.stdout.count("erased: ")) == (1, 2)
    assert run("verify", root, "--stream", "orders", "--tap", "crm", "--erased", KIM).exit_code == 2


def test_a_file_of_another_encoding_is_refused(run: Run, root: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_bytes("größe".encode("latin-1"))
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", f"id in @{keys}")
    assert (result.exit_code, "it is not UTF-8 text" in result.stderr) == (2, True)


def test_storage_that_is_away_when_files_are_deleted_is_said(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StorageUnavailableError("the disk is away", hint="plug it in")

    monkeypatch.setattr(LocalStorage, "delete_all", away)
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", KIM, "--delete", "--now")
    assert result.exit_code == 1
    assert "crm/people: 3 records erased" in result.stdout
    assert "erased, and then failed: the disk is away" in result.stdout
    assert ids(lake) == [1, 2, 4, 5, 7, 8]


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_every_engine_erases(run: Run, lake: Lake, root: Path, engine: str) -> None:
    assert erase(run, root, "--delete", "--engine", engine)[0] == "crm/people: 3 records erased in 2 of 3 files"
    assert ids(lake) == [1, 2, 4, 5, 7, 8]


def test_on_s3(run: Run, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = f"erase-{uuid.uuid4().hex}"
    s3.create_bucket(bucket)
    url = f"s3://{bucket}/lake"
    for name, value in {
        "S3_ENDPOINT_URL": s3.endpoint_url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_REGION": REGION,
    }.items():
        monkeypatch.setenv(f"SINGERLAKE_{name}", value)
    lake = Lake.open(url, s3.settings())
    people(lake)
    assert erase(run, url, "--delete", "--now")[0] == "crm/people: 3 records erased in 2 of 3 files"
    assert lake.stream("crm", "people").to_arrow().read_all().column("id").to_pylist() == [1, 2, 4, 5, 7, 8]
    assert run("verify", url, "--erased", KIM).exit_code == 0


def test_a_plain_gzip_reader_sees_the_hole(run: Run, lake: Lake, root: Path) -> None:
    erase(run, root, "--delete", "--now")
    import gzip

    texts = [gzip.decompress((root / path).read_bytes()) for path in data_files(root)]
    assert sum(text.count(HOLE) for text in texts) == 3
    assert not any(b"kim" in text for text in texts)


def test_what_a_killed_writer_left_is_looked_into(run: Run, lake: Lake, root: Path) -> None:
    path = root / "raw/crm/people" / lake.stream("crm", "people").snapshot().files[0].path
    whole = path.read_bytes()
    erase(run, root, "--delete", "--now")
    path.with_name(".tmp-0123456789abcdef").write_bytes(whole[:-4])
    path.with_name(".tmp-0123456789abcdeg").write_bytes(b'{"format": 1')
    told = erase(run, root)
    assert told[1].startswith("  2 records are still in 1 file, which nothing lists: ")
    found = run("verify", root, "--erased", KIM)
    assert found.exit_code == 1
    assert ".tmp-0123456789abcdef: holds" in found.stdout
    assert ".tmp-0123456789abcdeg" not in found.stdout


def test_a_person_is_erased_from_all_streams_that_declare_the_property(
    run: Run, lake: Lake, root: Path, tmp_path: Path
) -> None:
    people(lake, "leads")
    build_stream(lake, "shop", "orders", {"properties": {"n": {"type": "integer"}}}, [{"n": 1}])
    build_stream(lake, "shop", "buyers", SCHEMA, [{"id": 1, "email": "lee@example.com"}])
    before = everything(root)
    told = run("erase", root, "--where", KIM).stdout.splitlines()
    assert told[-1] == "6 records would be erased in 2 of 3 streams; 1 stream without such a property"
    assert [line for line in told if line.endswith("of 3 files")] == [
        f"crm/{name}: 3 records would be erased in 2 of 3 files" for name in ("leads", "people")
    ]
    assert everything(root) == before
    report = tmp_path / "erased.json"
    done = run("erase", root, "--where", KIM, "--delete", "--report", report)
    assert (done.exit_code, done.stderr) == (0, "")
    written = json.loads(report.read_text())
    assert [(one["stream"], one["records"]) for one in written["streams"]] == [
        ("leads", 3),
        ("people", 3),
        ("buyers", 0),
    ]
    assert written["skipped"] == [{"tap": "shop", "stream": "orders"}]
    assert ("@" in written["by"], written["started"] <= written["ended"] < written["left_until"]) == (True, True)
    assert "kim@example" not in report.read_text()
    assert ids(lake) == ids(lake, "leads") == [1, 2, 4, 5, 7, 8]


def test_a_stream_that_cannot_be_erased_from_stops_no_other(run: Run, lake: Lake, root: Path, tmp_path: Path) -> None:
    people(lake, "broken")
    build_stream(lake, "shop", "other", {"properties": {"email": {"type": "integer"}}}, [{"email": 1}])
    lake.storage.put("raw/crm/broken/manifest.json", b"{")
    done = run("erase", root, "--where", KIM, "--delete", "--report", tmp_path / "r.json")
    assert (done.exit_code, done.stdout.count("not erased: ")) == (2, 2)
    assert ids(lake) == [1, 2, 4, 5, 7, 8]
    failed = json.loads((tmp_path / "r.json").read_text())["failed"]
    assert [(each["stream"], each["error"]["kind"]) for each in failed] == [
        ("broken", "corrupt_object"),
        ("other", "setting"),
    ]


def test_no_report_is_overwritten_and_none_is_left_of_nothing(run: Run, root: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    report.write_text("kept")
    before = everything(root)
    refused = run("erase", root, "--where", KIM, "--delete", "--report", report)
    assert (refused.exit_code, "--report cannot be written" in refused.stderr) == (2, True)
    assert (report.read_text(), everything(root)) == ("kept", before)
    nothing = run("erase", root, "--where", "emial = 1", "--report", tmp_path / "other.json")
    assert (nothing.exit_code, "did you mean 'email'" in nothing.stderr) == (2, True)
