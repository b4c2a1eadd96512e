"""Experiments on the live modules: equivalent formulations, conversion, ablation, measurement."""
