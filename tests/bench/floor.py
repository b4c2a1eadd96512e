"""Minimal Streamlit page for a changed setting: rerun and write the number."""

import streamlit as st

st.title("Floor")
st.markdown(f"The setting is {st.slider('Setting', 0, 512, 256)}.")
