"""Stage 10, show: takes reports and series from the store, gives lines, tables, pictures; comes last.

Everything that a model or a user wrote is data here: control characters are made visible, lengths are bounded.
"""
