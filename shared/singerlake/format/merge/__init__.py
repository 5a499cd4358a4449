"""The names and bodies of the entries that the manifest store ``merge`` keeps."""
