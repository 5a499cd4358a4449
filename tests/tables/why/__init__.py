"""Where rows come from, held against what plain Python reads of the bytes that are told."""
