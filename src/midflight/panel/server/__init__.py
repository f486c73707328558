"""HTTP: who may ask, what a browser is told it may do, and answers as JSON, a stream of what is new, and the page."""
