"""What can be asked of a model, one file a kind: requests for an item, and the sample read from their outputs."""
