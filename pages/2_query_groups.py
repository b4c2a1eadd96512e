"""Query groups: which query head reads which KV head."""

from attnviz.ui import groups_page
from attnviz.ui.frame import page

page("Query groups", groups_page.show)
