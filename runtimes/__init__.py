"""Runtimes: one file a device. See contract.py for what a new one must provide."""
