"""What goes wrong in training, one file a kind: the folder is the registry. `base` says what a detector is."""
