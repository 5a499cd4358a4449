"""Files that grow until they are committed, and the progress of a run."""
