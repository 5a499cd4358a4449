"""Two threads that decode a type for the first time together must not meet a type that msgspec half knows."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from singerlake.format.decoders import PREPARED, prepare_decoders

NEVER_DECODED = {
    "singerlake.stores.queued.message.Refusal",
    "singerlake.upkeep.scan.ScanResult",
    "singerlake.storage.port.Entry",
    "target_singerlake.input.messages.Records",
    "target_singerlake.input.messages.Message",
}
ALL_OF_THEM = """
import importlib, pkgutil
import msgspec, singerlake, tap_singerlake, target_singerlake
from singerlake.format.decoders import PREPARED

for package in (singerlake, tap_singerlake, target_singerlake):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)

def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)

own = ("singerlake.", "tap_singerlake.", "target_singerlake.")
for kind in below(msgspec.Struct):
    if kind not in PREPARED and kind.__module__.startswith(own):
        print(f"{kind.__module__}.{kind.__qualname__}")
"""


def test_every_type_that_is_decoded_is_ready_when_its_module_is() -> None:
    done = subprocess.run([sys.executable, "-c", ALL_OF_THEM], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == NEVER_DECODED


def test_threads_decode_a_type_that_is_ready() -> None:
    fields = [(f"f{index}", dict[str, list[int]] | None, None) for index in range(30)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(50):
            inner = msgspec.defstruct(f"Inner{number}", fields)
            outer = msgspec.defstruct(f"Outer{number}", [("all", list[inner]), ("one", inner | None, None)])  # type: ignore[valid-type]
            prepare_decoders(outer)
            with ThreadPoolExecutor(4) as threads:
                found = list(threads.map(msgspec.json.Decoder(outer).decode, [b'{"all":[{}]}'] * 4))
                found += threads.map(partial(msgspec.json.decode, type=outer), [b'{"all":[{}]}'] * 4)
            assert found == [outer(all=[inner()])] * 8
            PREPARED.discard(outer)
    finally:
        sys.setswitchinterval(interval)
