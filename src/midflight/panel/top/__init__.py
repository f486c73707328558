"""The panel on a terminal: `midflight top`. It asks what the pages ask, and draws it with characters."""
