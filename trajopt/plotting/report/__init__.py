"""The report of a solve: one HTML file that opens anywhere and loads nothing.

Its picture in space is drawn by a player in this folder, four hundred lines of JavaScript over WebGL 2 (`picture.js`,
`player.js`), not by a recording of viser, the library of `trajopt.view`.  viser is an optional dependency, which a
report cannot require; its client adds 800 kB to every file, the player 19 kB; and its recording contains new vertices
of bending surfaces at every frame, where the player has each vertex follow its own body, as in
`trajopt.capabilities.Pictures`.
"""

from trajopt.plotting.report.page import write_report

__all__ = ["write_report"]
