"""Query groups: which query head reads which KV head."""

from attnviz.ui.frame import page
from attnviz.ui.warm import later

page("Query groups", later("query_groups"))
