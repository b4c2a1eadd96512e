"""AttnViz: the real attention modules, run on any text, with everything they compute kept and drawn."""
