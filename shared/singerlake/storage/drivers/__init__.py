"""One folder a cloud: the single requests that ``CloudStorage`` sends, by the library of its maker."""
