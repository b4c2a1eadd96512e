"""The user's selection: settings, their link, and the registries of pages and elements. No streamlit, no torch."""
