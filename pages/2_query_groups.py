"""Query groups: which query head reads which KV head."""

from attnviz.server.warm import later
from attnviz.ui.frame import page

page("Query groups", later("query_groups"))
