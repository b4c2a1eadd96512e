"""What a person has chosen: settings, their link, and the registry of pages. No streamlit, no torch."""
