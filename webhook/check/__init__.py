"""`accel check`: reads a cluster with the user's own permissions and says what is wrong and what to do.

Reading and judging are separate: `cluster` calls the API server and builds `Facts`; every check is a plain function
from `Facts` to a `Finding`, all of them in `checks.CHECKS`. Nothing is ever changed: the one object that is created is
a server-side dry run.
"""

from webhook.check.command import check_app

__all__ = ["check_app"]
