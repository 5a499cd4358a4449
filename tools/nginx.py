"""The nginx that the tests put in front of storage: the machine's, or Debian's.

python -m tools.nginx    say where it is, and get it where there is none; exit 1 where that cannot be done
"""

from __future__ import annotations

import sys

from tools.debian import Program

NGINX = Program("nginx", package="nginx-light", purpose="the tests of storage behind a balancer")

if __name__ == "__main__":
    sys.exit(NGINX.main())
