"""singer-sdk's own target suite, on the raw road and with a stream map, each test with a look at the lake after it."""

from __future__ import annotations

import json
import tempfile
from typing import Any

from singer_sdk.testing import get_target_test_class
from singer_sdk.testing.suites import SingerTestSuite, target_tests
from singer_sdk.testing.target_tests import TargetMultipleStateMessages
from singer_sdk.testing.templates import TargetFileTestTemplate

from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake
from tests.target.support import TAP, kept

ALIAS = "mapped-"
MAPS = {"*": {"__alias__": f"'{ALIAS}' + __stream_name__", "_by": "'a map'"}}
SCHEMA_REFUSED = {"invalid_schema", "record_before_schema"}
REFUSED = {"invalid_schema", "record_before_schema", "record_missing_key_property"}


class InALakeOfItsOwn:
    """Mixed into the suite's tests: a fresh lake, and every RECORD of the input found in it."""

    name: str
    singer_filepath: Any

    def run(self, config: Any, resource: Any, runner: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            runner.config = {**runner.config, "lake_root": folder}
            self.root, self.maps = folder, "stream_maps" in runner.config
            super().run(config, resource, runner)  # type: ignore[misc]

    def validate(self) -> None:
        if not isinstance(self, TargetFileTestTemplate):
            return
        lines = self.singer_filepath.read_bytes().splitlines()
        sent: dict[str, list[bytes]] = {}
        for line in lines:
            message = json.loads(line)
            if message["type"] == "SCHEMA" and self.name not in SCHEMA_REFUSED:
                sent.setdefault(message["stream"], [])
            if message["type"] == "RECORD" and self.name not in REFUSED:
                sent.setdefault(message["stream"], []).append(line)
        lake = Lake.open(self.root)
        assert set(lake.streams(TAP)) == {(ALIAS if self.maps else "") + stream for stream in sent}
        for stream, expected in sent.items():
            if self.maps:
                found = [json.loads(line) for line in kept(self.root, ALIAS + stream)]
                assert found == [mapped(json.loads(line)) for line in expected]
            else:
                assert kept(self.root, stream) == expected


def mapped(message: dict[str, Any]) -> dict[str, Any]:
    """What ``MAPS`` makes of a RECORD."""
    return {**message, "stream": ALIAS + message["stream"], "record": {**message["record"], "_by": "a map"}}


class NewestStateOnly(InALakeOfItsOwn, TargetMultipleStateMessages):
    """Nothing is committed before the end of so short an input. Then one STATE may come before the last one: the
    first, before which only stream a had a record, where a's file is committed before b's."""

    def test(self) -> None:
        self.runner.sync_all()
        *before, last = self.runner.state_messages
        assert last == {"test_multiple_state_messages_a": 5, "test_multiple_state_messages_b": 6}
        assert before in ([], [{"test_multiple_state_messages_a": 1, "test_multiple_state_messages_b": 0}])


class StateAfterEveryRecord(InALakeOfItsOwn, TargetMultipleStateMessages):
    """With a file a record, every STATE is emitted at most once, in order, and the last one at the end."""

    name = "multiple_state_messages_file_a_record"
    singer_filepath = TargetMultipleStateMessages().singer_filepath

    def test(self) -> None:
        self.runner.config = {**self.runner.config, "max_file_records": 1}
        self.runner.sync_all()
        states = self.runner.state_messages
        sent = [json.loads(line) for line in self.singer_filepath.read_bytes().splitlines()]
        values = [message["value"] for message in sent if message["type"] == "STATE"]
        assert states[-1] == values[-1]
        places = [values.index(state) for state in states]
        assert places == sorted(set(places))


SUITE = SingerTestSuite(
    kind="target",
    tests=[
        *(type(test.__name__, (InALakeOfItsOwn, test), {}) for test in target_tests.tests),
        NewestStateOnly,
        StateAfterEveryRecord,
    ],
)


def _class(**settings: Any) -> Any:
    return get_target_test_class(
        TargetSingerlake,
        config={"lake_root": "replaced", "tap_id": TAP, **settings},
        custom_suites=[SUITE],
        include_target_tests=False,
    )


class TestRawRoad(_class()):  # type: ignore[misc]
    """Default settings."""


class TestRewritingRoad(_class(stream_maps=MAPS)):  # type: ignore[misc]
    """Every stream under another name, every record with one more property."""
