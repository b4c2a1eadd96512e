"""Arrays and labels in, plotly figures out; no streamlit, no torch, and no sums that belong in analysis or cost."""
