"""Arrays and labels in, plotly charts out; no streamlit, no torch, and no sums that belong in analysis or cost."""
