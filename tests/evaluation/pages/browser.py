"""A real browser without a window: Debian's Chromium, driven by Debian's driver."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE_SECONDS = 60
LOGS = ("browser", "performance")
NEEDED = ("chromium", "chromedriver")


class Browser:
    """One page at a time, opened from the file system, and what came of it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, width: int, height: int) -> None:
        """Open a page as on a screen of a size, and wait until everything on it is drawn."""
        self._resize(width, height)
        # What came of the page before is not asked for any more.
        for log in LOGS:
            self.driver.get_log(log)
        self.driver.get(page.resolve().as_uri())
        self.settle()

    def wait_for(self, script: str) -> Any:
        """Wait until a script returns something that is true, and return that."""
        return WebDriverWait(self.driver, PATIENCE_SECONDS, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script)
        )

    def ask(self, script: str, *arguments: object) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(script, *arguments)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window."""
        actions = ActionChains(self.driver, duration=0)
        actions.w3c_actions.pointer_action.move_to_location(int(x), int(y))
        actions.perform()

    def tap(self) -> None:
        """Press and release where the pointer is."""
        actions = ActionChains(self.driver, duration=0)
        actions.w3c_actions.pointer_action.click()
        actions.perform()

    def complaints(self) -> list[str]:
        """Return what the console says that is worse than a notice.

        What the driver of a GPU that is none says of its own speed is not of the page.
        """
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("WARNING", "SEVERE")
            and "GL Driver Message" not in entry["message"]
        ]

    def requested(self) -> list[str]:
        """Return the addresses that were asked for and are not files or part of the page."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        addresses = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in addresses if not url.startswith(("data:", "blob:"))]

    def keep_picture(self, path: Path) -> None:
        """Write what the whole page looks like, in a window as high as the page."""
        width, height = self.ask(
            "const box = document.documentElement.getBoundingClientRect();"
            " return [innerWidth, Math.ceil(box.height)]"
        )
        self._resize(width, height)
        self.settle()
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(picture["data"]))

    def settle(self) -> None:
        """Wait until everything on the page is drawn."""
        self.wait_for(
            "return document.readyState === 'complete' && (typeof Bokeh === 'undefined' ||"
            " (Bokeh.documents.length > 0 && Bokeh.documents.every(d => d.is_idle)))"
        )

    def _resize(self, width: int, height: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """Start a browser for as long as the body runs."""
    places = {name: shutil.which(name) for name in NEEDED}
    for name, place in places.items():
        assert place is not None, f"{name} is missing: apt-get install chromium chromium-driver"
    options = Options()
    options.binary_location = str(places["chromium"])
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--enable-unsafe-swiftshader",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(LOGS, "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(str(places["chromedriver"])))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
