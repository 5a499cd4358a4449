"""The storage contract, held by every adapter alike. A factory that cannot start fails; it is never skipped."""
