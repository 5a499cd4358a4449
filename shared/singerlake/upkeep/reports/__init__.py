"""What is only told: contents, history, runs, differences between schemas."""
