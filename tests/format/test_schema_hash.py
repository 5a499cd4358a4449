"""The schema hash and what it must not depend on."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import farmhash
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.exact_json import decode, encode
from singerlake.format.fingerprint import in_python
from singerlake.format.layout import from_segment, to_segment
from singerlake.format.schema_hash import canonical_schema, full_hash, hash_among, schema_hash

FINGERPRINTS = {
    b"": 0x9AE16A3B2F90404F,
    b"a": 0xB3454265B6DF75E3,
    b"ab": 0xAA8D6E5242ADA51E,
    b"abc": 0x24A5B3A074E7F369,
    b"test": 8581389452482819506,
    b"test" * 8: -4196240717365766262 % 2**64,
    b"test" * 64: 3500507768004279527,
    "日本語".encode(): 0xD99EEDA07B1CB847,
    bytes(range(256)): 0x496FBE15ED0E171F,
    b"x" * 16: 0x2E1630F1FCF7781C,
    b"x" * 17: 0x9CE745A1F3812FA5,
    b"x" * 32: 0xB30B9BACCC74DC05,
    b"x" * 33: 0xAA49185443E61637,
    b"x" * 64: 0x5FFB3C754F6913B8,
    b"x" * 65: 0x447CB9FD96F25F39,
    b"x" * 1000: 0x1A8C8AB6295A3220,
    b"1footrue": -1541654101129638711 % 2**64,
    b"2applefalse": 2794438866806483259,
    b"3true": -4880158226897771312 % 2**64,
}
"""Google's forever-fixed function: values of google/farmhash, Guava and BigQuery's FARM_FINGERPRINT."""


WAYS = {"pyfarmhash": farmhash.fingerprint64, "python": in_python}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("text", "fingerprint"), FINGERPRINTS.items())
def test_every_farmhash_gives_the_published_fingerprints(way: str, text: bytes, fingerprint: int) -> None:
    assert WAYS[way](text) == fingerprint


@given(st.binary(max_size=300) | st.integers(0, 5000).map(bytes))
def test_every_farmhash_gives_the_same_fingerprint(text: bytes) -> None:
    assert in_python(text) == farmhash.fingerprint64(text)


@pytest.mark.parametrize("missing", [(), ("farmhash",)])
def test_the_hash_is_the_same_whatever_is_installed(missing: tuple[str, ...]) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        "from singerlake.format import fingerprint, schema_hash\n"
        "print(fingerprint.best().__module__, schema_hash.schema_hash({'type': 'object'}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    module, found = ran.stdout.split()
    assert found == schema_hash({"type": "object"})
    assert module == ("farmhash", "singerlake.format.fingerprint")[len(missing)]


@pytest.mark.parametrize("way", WAYS)
def test_every_farmhash_ends_guava_s_chain_of_texts_of_all_lengths_as_guava_does(way: str) -> None:
    """FarmHashFingerprint64Test.testMultipleLengths: each text is made of the fingerprints of those before it."""
    text, mixed = bytearray(), 0
    for step in range(800):
        for power in range(4):
            length = len(text) if power == 3 else step ** (power + 1) % len(text) if power else step
            mixed ^= WAYS[way](bytes(text[:length]))
            mixed = (mixed ^ mixed >> 41) * 949921979 % 2**64
            text.append(ord("a") + mixed % 2**20 % 26)
        last, second, third, middle = text[-1], text[-2], text[-3], text[len(text) // 2]
        text[((last << 16) + (second << 8) + third) % len(text)] ^= middle
        text[((second << 16) + (third << 8) + middle) % len(text)] ^= step % 256
    assert mixed == 0x7A1D67C50EC7E167


@pytest.mark.parametrize(
    ("text", "short", "segment"),
    [
        ('{"properties":{"id":{"type":"integer"}},"type":"object"}', "3)vD5#h", "3%29vD5%23h"),
        (
            '{"properties":{"id":{"type":"integer"},"name":{"type":["null","string"]}},"type":"object"}',
            "c3&93#l",
            "c3%2693%23l",
        ),
    ],
)
def test_the_format_s_vectors_hold(text: str, short: str, segment: str) -> None:
    schema = json.loads(text)
    assert canonical_schema(schema) == text.encode()
    assert schema_hash(schema) == short
    assert to_segment(short) == segment
    assert from_segment(segment) == short


NAMES = st.sampled_from(["id", "name", "type", "required", "properties", "enum", "ключ"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.lists(st.sampled_from(["null", "string", "integer", "array"]), unique=True, max_size=4)},
        optional={"enum": st.lists(st.integers(), max_size=3), "format": st.just("date-time")},
    )
    | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=4)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=4),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=8,
)


def _respelled(node: object, shuffle: random.Random, *, named: bool = False) -> object:
    """The same schema in another spelling: keys in another order, the sets ``type`` and ``required`` too."""
    if isinstance(node, dict):
        items = list(node.items())
        shuffle.shuffle(items)
        return {
            key: _respelled(_reordered(value, shuffle), shuffle)
            if key in ("type", "required") and not named and isinstance(value, list)
            else _respelled(value, shuffle, named=key == "properties" and not named)
            for key, value in items
        }
    if isinstance(node, list):
        return [_respelled(item, shuffle) for item in node]
    return node


def _reordered(items: list[object], shuffle: random.Random) -> list[object]:
    return shuffle.sample(items, len(items))


@given(SCHEMAS, st.randoms(use_true_random=False), st.sampled_from([None, 2]))
def test_the_hash_does_not_change_with_spelling(schema: object, shuffle: random.Random, indent: int | None) -> None:
    respelled = json.loads(json.dumps(_respelled(schema, shuffle), indent=indent))
    assert canonical_schema(respelled) == canonical_schema(schema)
    assert full_hash(respelled) == full_hash(schema)


@given(SCHEMAS)
def test_the_canonical_text_is_the_schema_itself_spelled_canonically(schema: object) -> None:
    text = canonical_schema(schema)
    assert canonical_schema(json.loads(text)) == text


def test_the_order_of_data_and_of_names_does_matter() -> None:
    assert schema_hash({"enum": ["b", "a"]}) != schema_hash({"enum": ["a", "b"]})
    assert schema_hash({"default": {"type": ["b", "a"]}}) != schema_hash({"default": {"type": ["a", "b"]}})
    assert schema_hash({"items": [{"type": "string"}, {}]}) != schema_hash({"items": [{}, {"type": "string"}]})


def test_the_hash_is_the_head_of_all_ten_characters() -> None:
    schema = {"type": "object", "properties": {}}
    assert len(full_hash(schema)) == 10
    assert full_hash(schema).startswith(schema_hash(schema))


def test_a_second_schema_under_the_same_seven_characters_takes_all_ten() -> None:
    schema = {"type": "object", "properties": {"b": {"type": ["string", "null"]}}}
    other_spelling = {"properties": {"b": {"type": ["null", "string"]}}, "type": "object"}
    short = schema_hash(schema)
    assert hash_among(schema, {}) == short
    assert hash_among(schema, {short: other_spelling}) == short
    assert hash_among(schema, {short: {"another": "schema"}}) == full_hash(schema)


def test_a_schema_with_a_lone_surrogate_has_a_hash() -> None:
    assert len(schema_hash({"properties": {"\ud800": {}}})) == 7


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_schema_s_number_that_json_has_not_counts_as_the_null_that_the_manifest_keeps(number: str) -> None:
    sent = json.loads(f'{{"properties":{{"a":{{"default":{number},"maximum":{number}}}}}}}')
    kept = decode(encode(sent), dict)
    assert kept == {"properties": {"a": {"default": None, "maximum": None}}}
    assert canonical_schema(sent) == canonical_schema(kept)
    assert hash_among(sent, {schema_hash(sent): kept}) == schema_hash(sent)


def test_a_schema_that_changed_has_another_hash_and_many_hashes_stay_right() -> None:
    schema: dict[str, object] = {"properties": {"a": {"type": "null"}}}
    before = full_hash(schema)
    schema["properties"] = {"a": {"type": "string"}}
    many = [full_hash({"title": str(number)}) for number in range(2000)]
    assert full_hash(schema) != before
    assert len(set(many)) == 2000
    assert [full_hash({"title": str(number)}) for number in range(2000)] == many
    assert full_hash({"default": float("nan")}) == full_hash({"default": None}) != full_hash({"default": "NaN"})
