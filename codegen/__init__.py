"""From a kernel to target text: lower, optimize, linearize, render."""
