"""`python -m benchmarks` is `intarsia bench`."""

from benchmarks.cli import main

raise SystemExit(main())
