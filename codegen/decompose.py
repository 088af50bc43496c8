"""Decompose."""


def decompose(roots):
    return list(roots)
