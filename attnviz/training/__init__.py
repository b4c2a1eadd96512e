"""How the shipped checkpoints were made: `python -m attnviz.training --help`. The app never imports this."""
