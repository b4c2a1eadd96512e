"""Query groups: which query head reads which KV head."""

from attnviz.ui import groups_page
from attnviz.ui.frame import frame

view = frame("Query groups")
groups_page.control(view)
groups_page.sharing(view)
groups_page.scale(view)
groups_page.maps(view)
groups_page.closer(view)
