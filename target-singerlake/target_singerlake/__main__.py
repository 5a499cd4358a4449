"""The ``target-singerlake`` command, and ``python -m target_singerlake``: imports quickly what it needs, then runs."""

from singerlake.interpreter.collector import collector_paused, spare_what_lasts
from singerlake.interpreter.linear_algebra import one_thread_for_linear_algebra


def main() -> None:
    """The console command."""
    one_thread_for_linear_algebra()
    with collector_paused():
        from target_singerlake.target import main as run

        spare_what_lasts()
    run()


if __name__ == "__main__":
    main()
