"""``python -m midflight`` is `midflight`."""

from midflight.cli import main

main()
