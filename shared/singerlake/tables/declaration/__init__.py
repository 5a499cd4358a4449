"""What a user declares a table to be: the model, the YAML file, and what it means for the streams that are there."""
