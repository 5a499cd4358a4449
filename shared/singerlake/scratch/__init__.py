"""Files that this machine needs for a while: they go with their block, or with their process."""
