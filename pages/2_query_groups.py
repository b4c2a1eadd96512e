"""Query grouping: which query head reads which KV head."""

from attnviz.ui.frame import show_page

show_page("query_groups")
