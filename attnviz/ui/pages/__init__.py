"""The pages: what each shows, in the order it is read."""
