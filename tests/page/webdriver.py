"""A browser, driven through chromedriver by the WebDriver protocol and the standard library alone.

Owns the processes of chromedriver and Chromium and ends both. Knows nothing about the page.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE_S = 120


class Refused(Exception):
    """chromedriver answered with an error."""


def missing():
    """The first program that this needs and that is not there, or None."""
    programs = [("chromedriver",), ("chromium", "chromium-browser", "google-chrome")]
    return next((names[0] for names in programs if not any(map(shutil.which, names))), None)


class Browser:
    def __init__(self, width=1280, height=900):
        self.folder = tempfile.TemporaryDirectory(prefix="airamp-page-", ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.session = None
        try:
            self.address = f"http://127.0.0.1:{self._port()}"
            answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": self._capabilities(width, height)}})
            self.session = answer["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return int(line.rsplit("port", 1)[1].strip(" .\n"))
        raise Refused("chromedriver did not start")

    def _capabilities(self, width, height):
        binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--force-color-profile=srgb", f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}"]
        return {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": binary, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": PATIENCE_S * 2000, "pageLoad": PATIENCE_S * 2000},
        }

    def _ask(self, method, path, body=None):
        prefix = f"/session/{self.session}" if self.session else ""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + prefix + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S * 3) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise Refused(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, address):
        self._ask("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """The value of a function body, run in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script, *arguments, what=None):
        """Asks until the function body gives something true, and returns it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = self.run(script, *arguments)
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"waited {PATIENCE_S} s for: {what or script}")

    def chrome(self, command, **parameters):
        """A command of Chromium's own protocol: sizes, preferred colours, closed tabs."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        self.chrome("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Space": " ", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Home": "\ue011", "End": "\ue010"}

    def press(self, *names):
        keys = [key for name in names for key in self.KEYS.get(name, name)]
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector):
        element = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        self._ask("POST", f"/element/{next(iter(element.values()))}/click", {})

    def tabs(self):
        return self._ask("GET", "/window/handles")

    def new_tab(self):
        """Opens a tab in front, which hides the one before; returns the hidden one's name."""
        before = self._ask("GET", "/window")
        self._ask("POST", "/window", {"handle": self._ask("POST", "/window/new", {"type": "tab"})["handle"]})
        return before

    def close_tab(self, back_to):
        self._ask("DELETE", "/window")
        self._ask("POST", "/window", {"handle": back_to})

    def complaints(self):
        """What the browser wrote to its console since the last time: errors, warnings, violations of the policy."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, name, whole=True):
        """Writes a screenshot into the folder that AIRAMP_PAGE_PICTURES names, if it is set."""
        folder = os.environ.get("AIRAMP_PAGE_PICTURES")
        if not folder:
            return
        data = self.chrome("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        pathlib.Path(folder, f"{name}.png").write_bytes(base64.b64decode(data))

    def close(self):
        try:
            if self.session:
                self._ask("DELETE", "")
        except (Refused, OSError):
            pass
        self.driver.terminate()
        try:
            self.driver.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        self.driver.stdout.close()
        self.folder.cleanup()
