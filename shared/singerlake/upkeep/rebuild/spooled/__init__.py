"""What a rebuild of very many files keeps on this machine's disk, so that it fits in memory."""
