"""The compiled scanner under the compiler's watch: no hostile line makes it touch memory that is not its own."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path

import pytest

from singerlake.format.lines import scanner
from tests.processes import sanitized

ROUNDS = 20_000

FUZZ = r"""
import random, sys
from _scanner import Scanner

chance = random.Random(int(sys.argv[1]))
LINES = [
    b'{"type":"RECORD","stream":"s\xc3\xbc","record":{"d":-0.1e-3,"b":true,"t":"a\\n","j":[1,{"k":"\\ud83d\\ude00"}],'
    b'"\xc3\xa9":"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},"time_extracted":"2026-01-02T00:00:00.25Z"}\n',
    b'{ "record" : {"d": 1, "x": {"d": 2}}, "time_extracted": "2026-01-02", "stream": "t", "type": "RECORD"}\r\n',
    b'{"type":"RECORD","stream":"t","record":{%s,"d":1}}\n' % b",".join(b'"%0*d":0' % (n, n) for n in range(1, 99, 2)),
    # More members than a shape has room for, and the lengths of their names change.
    b'{"type":"RECORD","stream":"t","record":{%s,"d":1}}\n'
    % b",".join(b'"%0*d":0' % (9 + n % 40, n) for n in range(300)),
    b'{"type":"RECORD","stream":"t","record":{"d":1,%s}}\n'
    % b",".join(b'"%0*d":0' % (48 - n % 40, n) for n in range(300)),
]
PIECES = [
    *(bytes([byte]) for byte in b'"\\{}[]:,-.e0\n\x00\xff\xc3\xf4Z'), b"\\u", b"\\ud83d", b"null", b"tru", b".5",
    b"+00:00", b"9" * 25, b"[" * 80, b'{"x":' * 80, b" \t\r", b"2026-01-02T00:00:00", b"\xed\xa0\x80", b'"d":1,',
    LINES[1], b'"stream":"u"',
]
NAMES = [b"s\xc3\xbc", b"t", b"u", b"", b"x" * 300] + [b"n%d" % number for number in range(60)]
taken = 0
for _ in range(int(sys.argv[2])):
    if _ % 10 == 0:
        scanner = Scanner()
        scanner.know("t", (b"t",), ((b"d",),))
    name = chance.choice(NAMES)
    keys = chance.sample([(b"d",), (b"\xc3\xa9", b"\\u00e9"), (b"no",), ()], chance.choice([0, 0, 1, 2, 4]))
    scanner.know(name.decode(), (name, b"also " + name), tuple(keys))
    try:
        scanner.know("bad", (b"bad", 5), ((b"d",), None))
    except TypeError:
        pass
    data = damaged(chance, chance.choice(LINES), PIECES) + chance.choice(LINES)
    data = data[data.find(b"\n") + 1 :] if chance.random() < 0.1 else bytes(data)
    at, lines, runs = scanner.scan(data if _ % 2 else bytearray(data), 0)
    assert sum(run[2] for run in runs) == lines == data.count(b"\n", 0, at)
    assert sum(len(run[1]) for run in runs) == at
    taken += lines
print(taken)
"""


@pytest.mark.sampled(seed=1)
@sanitized.linux
@pytest.mark.parametrize("seed", range(3))
def test_damaged_lines_stay_within_their_memory(tmp_path: Path, seed: int) -> None:
    taken = sanitized.watched(tmp_path, "format/lines/_scanner.c", FUZZ, seed, ROUNDS)
    assert int(taken) > ROUNDS / 10


def test_nothing_is_kept_of_a_block() -> None:
    line = b'{"type":"RECORD","stream":"%s","record":{},"time_extracted":"2026-01-02%s"}\n'
    block = b"".join(line % (stream, time) for stream in (b"s", b"t") for time in (b"", b"T00:00:00Z")) * 500

    def held_after(times: int) -> int:
        made = scanner.Scanner()
        for _ in range(times):
            made.know("s", ())
            made.know("t", ())
            found = made.scan(block, 0)
            assert found[1] == 2000
            del found
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        once = held_after(1)
        assert held_after(100) - once < len(block)
    finally:
        tracemalloc.stop()


def test_two_threads_cannot_use_one() -> None:
    made = scanner.Scanner()
    made.know("s", ())
    block = b'{"type":"RECORD","stream":"s","record":{}}\n' * 200_000
    refused: list[RuntimeError] = []

    def scan() -> None:
        try:
            while not refused:
                made.scan(block, 0)
        except RuntimeError as error:
            refused.append(error)

    threads = [threading.Thread(target=scan) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "in use" in str(refused[0])
