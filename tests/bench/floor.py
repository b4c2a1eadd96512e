"""The least a Streamlit page can do when a setting is changed: run again and write the number."""

import streamlit as st

st.title("Floor")
st.markdown(f"The setting is {st.slider('Setting', 0, 512, 256)}.")
