"""Statistics of the arrays of a trace. numpy in, numpy out."""
