"""A raw data lake for Singer and Meltano pipelines; ``singerlake.lake.Lake`` is where to begin."""
