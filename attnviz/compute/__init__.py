"""What is computed once and shared: caches, the queue, and what each page computes besides the trace. No streamlit."""
