"""Evaluation for trainers that own their loop, one file a trainer."""
