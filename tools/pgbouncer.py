"""The PgBouncer that the tests put in front of PostgreSQL: the machine's, or Debian's.

python -m tools.pgbouncer    say where it is, and get it where there is none; exit 1 where that cannot be done
"""

from __future__ import annotations

import sys

from tools.debian import Program

PGBOUNCER = Program("pgbouncer", package="pgbouncer", purpose="the tests of PostgreSQL behind a pooler")

if __name__ == "__main__":
    sys.exit(PGBOUNCER.main())
