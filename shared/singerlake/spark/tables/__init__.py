"""Reading the lake's tables with Spark."""
