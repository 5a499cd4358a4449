"""``singerlake store create``, and lakes whose state is in a database."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.commands.store.stores import rows
from tests.cli.conftest import Run
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from tools.postgres import Server


@pytest.fixture
def dynamo_env(dynamodb: DynamoServer) -> dict[str, str]:
    return {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_DYNAMODB_ENDPOINT_URL": dynamodb.endpoint_url,
        "SINGERLAKE_DYNAMODB_TABLE": f"cli-{uuid.uuid4().hex[:12]}",
    }


@pytest.fixture
def postgres_env(postgres: Server) -> dict[str, str]:
    return {
        "SINGERLAKE_POSTGRES_URL": postgres.dsn,
        "SINGERLAKE_POSTGRES_SCHEMA": f"cli_{uuid.uuid4().hex[:12]}",
    }


class TestDatabases:
    def test_a_table_is_made_and_its_least_policy_is_printed_as_json(
        self, run: Run, dynamodb: DynamoServer, dynamo_env: dict[str, str]
    ) -> None:
        table = dynamo_env["SINGERLAKE_DYNAMODB_TABLE"]
        for _ in range(2):
            result = run("store", "create", "--kind", "dynamodb", env=dynamo_env)
            assert result.exit_code == 0
            policy = json.loads(result.stdout)
            assert {each["Resource"].rpartition("/")[2] for each in policy["Statement"]} == {table}
            assert "is ready" in result.stderr
        assert dynamodb.client().describe_table(TableName=table)["Table"]["TableStatus"] == "ACTIVE"

    def test_the_policy_says_what_items_need(self, run: Run, dynamo_env: dict[str, str]) -> None:
        given = run("store", "create", "--kind", "dynamodb", "--dynamodb-query-items", env=dynamo_env)
        named = run(
            "store", "create", "--kind", "dynamodb", env={**dynamo_env, "SINGERLAKE_DYNAMODB_QUERY_ITEMS": "true"}
        )
        assert given.stdout == named.stdout
        assert [each["Sid"] for each in json.loads(given.stdout)["Statement"]][2:] == ["SingerlakeReaders"]

    def test_options_win_over_the_environment(
        self, run: Run, dynamodb: DynamoServer, dynamo_env: dict[str, str], root: Path
    ) -> None:
        wrong = {**dynamo_env, "SINGERLAKE_DYNAMODB_ENDPOINT_URL": "http://127.0.0.1:9"}
        result = run(
            "store", "create", root, "--kind", "dynamodb", "--dynamodb-endpoint-url", dynamodb.endpoint_url, env=wrong
        )
        assert result.exit_code == 0
        assert not root.exists()

    def test_a_schema_is_made_once(self, run: Run, postgres_env: dict[str, str]) -> None:
        said = [run("store", "create", "--kind", "postgres", env=postgres_env).stdout for _ in range(2)]
        told = json.loads(run("store", "create", "--kind", "postgres", "--json", env=postgres_env).stdout)
        assert (told["kind"], told["policy"], told["before"]) == ("postgres", None, told["after"])
        schema = postgres_env["SINGERLAKE_POSTGRES_SCHEMA"]
        assert said[0].startswith(f"schema {schema} is ready, made: version ")
        assert said[1].startswith(f"schema {schema} is ready, unchanged: version ")

    @pytest.mark.parametrize(
        ("kind", "url"),
        [
            ("postgres", ""),
            ("postgres", "postgresql://ada:hunter2@127.0.0.1:9/lake"),
            ("postgres", "hunter2"),
            ("csv", ""),
        ],
    )
    def test_what_cannot_be_made_ready_is_said_without_the_password(self, run: Run, kind: str, url: str) -> None:
        result = run("store", "create", "--kind", kind, env={"SINGERLAKE_POSTGRES_URL": url})
        assert result.exit_code in (1, 2)
        assert result.stderr
        assert "hunter2" not in result.output

    def test_the_url_is_no_option(self, run: Run, lake: Lake) -> None:
        result = run("store", "ls", lake.storage.url, "--postgres-url", "postgresql://x")
        assert (result.exit_code, "No such option" in result.stderr) == (2, True)

    def test_a_number_in_the_environment_that_is_none_is_a_usage_error(self, run: Run, lake: Lake) -> None:
        result = run("ls", lake.storage.url, env={"SINGERLAKE_MERGE_STALE_SECONDS": "soon"})
        assert (result.exit_code, "$singerlake_merge_stale_seconds" in result.stderr.lower()) == (2, True)

    @pytest.mark.parametrize("kind", ["dynamodb", "postgres"])
    def test_a_lake_goes_to_a_database_and_back(
        self, run: Run, lake: Lake, kind: str, request: pytest.FixtureRequest
    ) -> None:
        env = request.getfixturevalue(f"{'dynamo' if kind == 'dynamodb' else kind}_env")
        before = lake.stream("t", "flights").snapshot()
        assert run("store", "create", "--kind", kind, env=env).exit_code == 0
        assert run("store", "migrate", "--yes", lake.storage.url, "--to", kind, env=env).exit_code == 0
        assert rows(run("store", "ls", lake.storage.url, env=env).stdout)["flights"][:3] == [kind, "6", "6"]
        assert run("rebuild", "--yes", lake.storage.url, env=env).exit_code == 0
        assert run("verify", lake.storage.url).exit_code == 0
        assert "t/flights" not in run("store", "trim", lake.storage.url, "--tap", "u", env=env).stdout
        assert lake.stream("t", "flights").snapshot().files == before.files
        assert run("store", "migrate", "--yes", lake.storage.url, "--to", "lockfile", env=env).exit_code == 0
        after = lake.stream("t", "flights").snapshot()
        assert (after.store, after.lineage, after.files) == ("lockfile", before.lineage, before.files)
        assert rows(run("store", "ls", lake.storage.url).stdout)["flights"] == ["lockfile", "9", "9", "0"]
