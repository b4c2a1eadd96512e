"""Minimal Streamlit app: one line of text."""

import streamlit as st

st.title("Empty")
