"""The ``tap-singerlake`` command, and ``python -m tap_singerlake``: imports quickly what it needs, then runs."""

from singerlake.interpreter.process import collector_paused, one_openblas_thread, spare_what_lasts


def main() -> None:
    one_openblas_thread()
    with collector_paused():
        from tap_singerlake.tap import main as run

        spare_what_lasts()
    run()


if __name__ == "__main__":
    main()
