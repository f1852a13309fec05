"""Animations of solutions, written frame by frame; the result is a path that notebooks show as the animation."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path, PosixPath
from typing import Any

import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter

from dynamics.validation import as_positive
from trajopt.plotting.motion import as_motion
from trajopt.plotting.scene import Scene, frame_times, scene_of
from trajopt.plotting.stage import SceneFigure
from trajopt.results.results_files import draft_of

FORMATS = {
    ".gif": '<img src="data:image/gif;base64,{data}" alt="{name}">',
    ".mp4": '<video src="data:video/mp4;base64,{data}" title="{name}" controls loop muted autoplay></video>',
}
"""Extensions of the files, and the HTML that embeds them in a page."""


class MovingPicture(PosixPath):
    """The path of an animation, with all methods of `pathlib.Path`; as the last value of a notebook's cell it is shown
    as the animation, embedded in the notebook."""

    def _repr_html_(self) -> str | None:
        if self.suffix not in FORMATS or not self.is_file():
            return None  # a path derived from it, as its parent, or a deleted file
        return FORMATS[self.suffix].format(data=b64encode(self.read_bytes()).decode("ascii"), name=escape(self.name))


# --------------------------------------------------------------------------------------------
# Animations of solutions, frame by frame into a file.

WIDTH = 7.2
"""Width of a picture, inches, for any number of pixels, so that text and lines scale with it."""
SMALLEST_SIZE = 100
ALMOST_WHITE = 243
"""Colours of a GIF whose red, green and blue all exceed this become white, so that the background stays white."""


def animate(
    solution: Any,
    path: str | Path,
    *,
    fps: float = 25.0,
    speed: float = 1.0,
    view: tuple[float, float] | None = None,
    size: tuple[int, int] = (720, 540),
    follow: bool = False,
    title: str | None = None,
) -> MovingPicture:
    """Write an animation of a solution: the system in space, with the problem's scenery, against time.

    Bodies are drawn by their shapes, with few triangles (see `dynamics.Geometry`), rods with their thickness and the
    tendons inside, systems without shapes by a skeleton.  Targets and obstacles are those of the problem's scenery and
    of its costs and constraints (`trajopt.interfaces.residual.SeenResidual`).  Contact points are discs, filled while
    they carry force; contact forces are arrows, to the scale in the legend; the ground is drawn where all points in
    contact stand at one height, or a robot without contacts on its fixed base, and so is the path of the centre of mass
    up to the present.  Each of these is drawn if the system has it (see `trajopt.interfaces.system`).  All scales are
    equal, and nothing that moves leaves the picture.

    Parameters
    ----------
    solution : Solution, or another motion with `system`, `times`, `xs` and `us`, as in simulations of soft robots
    path : file to write, .gif, or .mp4 with ffmpeg installed
        Its folder is made as needed, and it appears complete or not at all.
    fps : frames per second; frames of a .gif last whole hundredths of a second, so it has the nearest such rate
    speed : seconds of motion per second of the picture
    view : (elevation, azimuth) of the camera, degrees; by default from above and aside, or, where the motion stays in a
        plane normal to an axis, along that axis
    size : (width, height), pixels
    follow : True: the camera moves with the system, horizontally if there is ground, else in all directions
    title : name of the problem unless given; the time is added

    Returns
    -------
    MovingPicture
        The path, which a notebook shows as the picture.

    Raises
    ------
    TypeError : solution is neither, or its system has no `skeleton`.
    ValueError : an unknown extension, an option out of range, or a solution that is not finite.
    RuntimeError : an .mp4 without ffmpeg.

    Examples
    --------
    >>> solution = trajopt.DDP().solve(problems.make("pendulum", horizon=10))
    >>> picture = trajopt.animate(solution, "results/pendulum.gif", fps=10, size=(160, 120))
    >>> print(picture)  # a path; in a notebook it shows itself
    results/pendulum.gif
    """
    path = MovingPicture(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"path: got {path.name!r}, expected a name that ends in {' or '.join(FORMATS)}")
    _check_options(fps, speed, view, size)
    motion = as_motion(solution)
    _ = motion.drawable
    writer = _writer(path.suffix, fps)
    scene = scene_of(motion, frame_times(motion, _shown(path.suffix, fps) / speed))
    dpi = size[0] / WIDTH
    inches = ((size[0] + 1e-6) / dpi, (size[1] + 1e-6) / dpi)  # matplotlib truncates fractions of pixels
    stage = SceneFigure(scene, view=view, follow=follow, inches=inches)
    name = motion.name if title is None else title
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path, path.suffix) as draft, writer.saving(stage.figure, str(draft), dpi):
        for frame in range(len(scene.times)):
            stage.show(frame, _caption(name, scene, frame, speed))
            writer.grab_frame()
    return path


def _check_options(fps: float, speed: float, view: Any, size: Any) -> None:
    as_positive("fps", fps)
    as_positive("speed", speed)
    if view is not None and (np.shape(view) != (2,) or not np.isfinite(view).all()):
        raise ValueError(f"view: got {view!r}, expected (elevation, azimuth) in degrees")
    if np.shape(size) != (2,) or any(n != int(n) or n < SMALLEST_SIZE for n in size):
        raise ValueError(f"size: got {size!r}, expected (width, height), each at least {SMALLEST_SIZE} pixels")


def _hundredths(fps: float) -> int:
    """Duration of a frame of a GIF, in hundredths of a second, at least two: players take one for ten."""
    return max(2, round(100.0 / fps))


def _shown(suffix: str, fps: float) -> float:
    """Frames per second with which a player shows the file."""
    return 100.0 / _hundredths(fps) if suffix == ".gif" else fps


class _GifWriter(PillowWriter):
    """Writer of frames in the colours of the first, whose legend contains all of them: faster, smaller and without
    flicker."""

    _frames: list[Any]

    def setup(self, fig: Any, outfile: Any, dpi: float | None = None) -> None:
        super().setup(fig, outfile, dpi)
        self._palette: Any = None

    def grab_frame(self, **savefig_kwargs: Any) -> None:
        super().grab_frame(**savefig_kwargs)
        picture = self._frames[-1].convert("RGB")
        if self._palette is None:
            self._palette = picture.quantize(255)
            colors = np.reshape(self._palette.getpalette(), (-1, 3))
            self._palette.putpalette(np.where(colors.min(axis=1, keepdims=True) > ALMOST_WHITE, 255, colors).ravel())
        self._frames[-1] = picture.quantize(palette=self._palette, dither=0)


def _writer(suffix: str, fps: float) -> AbstractMovieWriter:
    if suffix == ".gif":
        rate: Any = 100.0 / (_hundredths(fps) + 0.05)  # the writer truncates durations to milliseconds
        return _GifWriter(fps=rate)
    if not FFMpegWriter.isAvailable():
        raise RuntimeError("path: got an .mp4, which needs the program ffmpeg, not found here; write a .gif instead")
    return FFMpegWriter(fps=fps)  # pyright: ignore[reportArgumentType]


def _caption(name: str, scene: Scene, frame: int, speed: float) -> str:
    pace = "" if speed == 1.0 else f"   ({speed:g}x)"
    return f"{name}   t = {scene.times[frame]:.2f} s{pace}"
