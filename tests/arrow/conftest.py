"""What tests of reading can ask for: both installations, with the compiled reader and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.arrow.decode import fast_path


@pytest.fixture(scope="module", params=["compiled", "pure"])
def either_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """The installation with a C compiler, then the one without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            assert fast_path.COMPILED, (
                "the package was installed without a C compiler: install one, and the package again"
            )
        else:
            patch.setattr(fast_path, "COMPILED", False)
        yield
