"""The mistakes, a file each."""
