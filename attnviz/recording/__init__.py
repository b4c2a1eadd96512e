"""Models of transformers, run once on a text or a picture, and their attention as a run."""
