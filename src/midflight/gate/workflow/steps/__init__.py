"""What a workflow can do, one file a kind of step."""
