"""Losses as functions.

In: scores, and labels or wanted values. Out: a number, or one for each example.

Files, in reading order:

- class_losses.py: Losses of classes: labels and probabilities beside scores.
- regression_losses.py: Losses of numbers beside numbers, and of distributions.
- margin_losses.py: Losses with a margin, between pairs of vectors or of scores.
- sequence_losses.py: The loss of a sequence of labels whose places in time are not known:
  connectionist temporal classification (A. Graves and others, 2006).
"""
