"""The report of a solve: one HTML file that holds all there is to know, opens anywhere, and fetches nothing.

Its picture in space is drawn by a player of this folder, four hundred lines of JavaScript over WebGL 2 (`picture.js`,
`player.js`), not by a recording of viser, the library of `trajopt.view`.  viser is an extra, which a report cannot ask
for; its client is 800 kB in every file, the player 19 kB; and its recording holds new vertices of what bends at every
frame, where the player has each vertex follow its own body, as `trajopt.capabilities.Pictures` states it.
"""

from trajopt.plotting.report.page import write_report

__all__ = ["write_report"]
