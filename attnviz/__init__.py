"""AttnViz: the real attention modules, run on any text, and everything they compute drawn."""
