"""Where rows come from, one file a source; the key in a task's ``[source]`` table, ``kind``, is the file's name."""
