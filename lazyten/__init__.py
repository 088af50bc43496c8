"""lazyten: eager-looking tensors that compile themselves."""
__version__ = "0.1.0"
