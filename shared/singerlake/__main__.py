"""The ``singerlake`` command, and ``python -m singerlake``: imports quickly what it needs, then runs."""

from singerlake.interpreter.process import collector_paused, spare_what_lasts


def main() -> None:
    """The console command."""
    with collector_paused():
        from singerlake.cli.main import main as run

        spare_what_lasts()
    run()


if __name__ == "__main__":
    main()
