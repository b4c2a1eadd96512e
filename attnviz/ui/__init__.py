"""The only streamlit in the package: settings, frame, cached runs, charts, downloads, components."""
