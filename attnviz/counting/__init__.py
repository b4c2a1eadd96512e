"""A model counted by building it with `transformers` on the meta device, in a process of its own."""
