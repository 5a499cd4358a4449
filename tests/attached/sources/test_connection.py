"""Which addresses are of the public internet."""

from __future__ import annotations

import pytest

from singerlake.attached.sources.https import checked_addresses, is_public, resolve
from singerlake.errors import UnreadableSourceError


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::808:808"]
)
def test_a_public_one_is(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::7f00:1",
        "fec0::1",
        "5f00::1",
        "4000::1",
    ],
)
def test_any_other_is_not_whatever_it_is_written_as(address: str) -> None:
    assert not is_public(address)


def test_one_private_address_is_enough_to_refuse_a_host() -> None:
    addresses = ["93.184.215.14", "127.0.0.1"]
    with pytest.raises(UnreadableSourceError, match="not of the public internet") as caught:
        checked_addresses("example.com", 443, private=False, resolve=lambda host, port: addresses)
    assert "file_private_addresses" in caught.value.hint
    assert checked_addresses("example.com", 443, private=True, resolve=lambda host, port: addresses) == addresses


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(UnreadableSourceError, match="name of its host is not known"):
        checked_addresses("none.invalid", 443, private=False, resolve=resolve)
    with pytest.raises(UnreadableSourceError, match="name of its host is not known"):
        checked_addresses("x" * 64 + ".example", 443, private=False, resolve=resolve)


def test_the_system_is_asked() -> None:
    assert "127.0.0.1" in resolve("127.0.0.1", 443)
    assert resolve("[::1]", 443) == ["::1"]
    # Spellings that other programs take for addresses are those addresses.
    assert resolve("2130706433", 443) == ["127.0.0.1"]
