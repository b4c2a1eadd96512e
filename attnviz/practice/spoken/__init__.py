"""Questions to answer aloud: their cards, in Markdown, and the schedule by which they come back."""
