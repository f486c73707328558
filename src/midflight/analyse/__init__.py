"""Stage 8, judged: takes what the store has of runs, gives comparisons, trends and plans; goes to gate and show."""
