"""What the panel's pages ask, one file a question: its path, its parameters, the shape of its answer, the answer."""
