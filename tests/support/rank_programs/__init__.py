"""What ranks run in the tests of lt.distributed; ranks.py starts them."""
