"""Stage 9, ship?: takes evidence and a policy, gives a verdict, and does what follows from it."""
