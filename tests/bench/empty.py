"""The least a Streamlit app can be: one line of text."""

import streamlit as st

st.title("Empty")
