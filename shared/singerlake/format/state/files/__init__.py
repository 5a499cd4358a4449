"""The list of a large stream's files, cut into immutable pieces that are read when they are asked for."""
