"""What relies on the insides of Streamlit, uvicorn or the C library; each file can be removed."""
