"""What is done to the modules to learn something of them: equalities, conversion, ablation, measurement."""
