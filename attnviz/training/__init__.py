"""Training of the shipped checkpoints: `python -m attnviz.training --help`. The app never imports this."""
