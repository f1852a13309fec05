"""A browser without a window, driven through two pipes: it opens pages of this machine and photographs them.

The protocol is Chromium's own for its developer tools; messages are JSON with a zero byte at the end.
"""

import base64
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SWITCHES = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--no-proxy-server",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)  # fmt: skip
AS_3_AND_4 = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""A program that starts another with two of its files where the browser looks for them."""


class Browser:
    """One process, one page; `with` ends all that it started.

    Parameters
    ----------
    folder : where it keeps its profile
    size : (width, height) of the page, pixels
    seconds : after which everything still under way is a TimeoutError

    Attributes
    ----------
    complaints : what pages that were opened have complained about, errors that nobody caught included
    """

    def __init__(self, folder, size: tuple[int, int], seconds: float):
        self._deadline, self._calls, self._session, self._left = time.monotonic() + seconds, 0, None, b""
        self.complaints: list[str] = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [str(CHROMIUM), *SWITCHES, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", AS_3_AND_4, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _call(self, method: str, **parameters) -> dict:
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._next_message(method))
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer
                return answer["result"]
            self._listen(answer.get("method"), answer.get("params", {}))

    def _listen(self, event: str | None, told: dict) -> None:
        """Keep complaints."""
        if event == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(told["entry"]))

    def _next_message(self, method: str) -> bytes:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, self._deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{method}: the browser does not answer")
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        return message

    def open(self, url: str) -> None:
        """Show a page; back when it is loaded, and no longer the empty one that a target begins with."""
        target = self._call("Target.createTarget", url=url)["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Runtime.enable")  # from here on it tells what was and what will be complained about
        self._call("Log.enable")
        while not self._loaded(url):
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"{url} is never loaded")
            time.sleep(0.02)

    def _loaded(self, url: str) -> bool:
        try:
            return self.evaluate("document.readyState == 'complete' ? location.href : ''").startswith(url)
        except AssertionError:  # asked of a page that is just being left
            return False

    def show_as(self, width: int, height: int, scheme: str = "light") -> None:
        """Let the page be so many pixels, in a "light" or a "dark" surrounding."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, code: str):
        """What JavaScript in the page returns, as JSON; a promise is waited for."""
        found = self._call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def photograph(self) -> np.ndarray:
        """The page (height, width, 3) as integers."""
        data = self._call("Page.captureScreenshot", format="png")["data"]
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            return np.asarray(image.convert("RGB")).astype(int)

    def photograph_when(self, shows: Callable[[np.ndarray], bool]) -> np.ndarray:
        """The first picture that shows what it is to, and is the same twice in a row."""
        before = self.photograph()
        while time.monotonic() < self._deadline:
            now = self.photograph()
            if shows(now) and np.array_equal(now, before):
                return now
            before = now
        raise TimeoutError("the page never shows what it is to")
