"""``python -m gpusim`` and the ``gpusim`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line; exits with 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from gpusim.cli import run

    run()


if __name__ == "__main__":
    main()
