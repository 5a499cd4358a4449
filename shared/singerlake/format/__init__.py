"""The on-disk contract as pure functions and frozen models; ``shared/docs/format`` is its text."""

FORMAT = 1
"""The one version of the format. What a state needs beyond it is a feature, by name: ``format.state.features``."""
