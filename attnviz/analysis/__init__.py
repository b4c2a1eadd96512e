"""What the arrays of a trace say. numpy in, numpy out."""
