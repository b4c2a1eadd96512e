"""The mistakes, one per file."""
