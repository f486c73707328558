"""The panel in a browser: answers to what its pages ask, the server that gives them, and reports of one file.

`answers` holds one file a question. `server` speaks HTTP and knows nothing of evaluations; `report` puts the same
answers into a file. Nothing here changes a store, unless it is told that it may.
"""
