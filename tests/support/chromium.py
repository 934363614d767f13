"""The browser that the dashboard is tested in: Chromium and its driver, found or installed.

``python tests/support/chromium.py`` says what there is and, where there is none, installs Debian's packages
if it may. Tests only look.
"""

from __future__ import annotations

import os
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRIVERS = ("chromedriver", "chromium.chromedriver")
PLACES = ("/usr/bin", "/usr/lib/chromium", "/usr/lib/chromium-browser", "/snap/bin")
PACKAGES = ("chromium", "chromium-driver")
HELP = (
    "the dashboard's tests need Chromium (or Chrome) and chromedriver, and found no {missing}. "
    f"On Debian or Ubuntu: sudo apt-get install {' '.join(PACKAGES)}. Elsewhere install both and put them on "
    "the PATH, or name them in WEFT_CHROMIUM and WEFT_CHROMEDRIVER"
)


def find() -> tuple[str, str]:
    """The paths of browser and driver; RuntimeError says what to do where one is missing."""
    browser, driver = _find("WEFT_CHROMIUM", BROWSERS), _find("WEFT_CHROMEDRIVER", DRIVERS)
    if browser is None or driver is None:
        missing = " and no ".join(
            n for n, at in (("browser", browser), ("chromedriver", driver)) if at is None
        )
        raise RuntimeError(HELP.format(missing=missing))
    return browser, driver


def _find(variable: str, names: tuple[str, ...]) -> str | None:
    if os.environ.get(variable):
        return shutil.which(os.environ[variable])
    path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
    return next((at for name in names if (at := shutil.which(name, path=path))), None)


def install() -> None:
    """Install Debian's packages, as root or by sudo where that asks for no password."""
    apt = shutil.which("apt-get")
    become = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if apt is None or (become and not shutil.which("sudo")):
        return
    how = " ".join([*become, "apt-get"])
    print(f"No Chromium with chromedriver: installing {' and '.join(PACKAGES)} by {how} ...")
    options = ["-qq", "-o", "Dpkg::Use-Pty=0"]
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
        done = subprocess.run(
            [*become, *environment, apt, *options, *command], stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            return


def main() -> None:
    """Say what there is, once it was looked for and perhaps installed."""
    try:
        find()
    except RuntimeError:
        install()
    try:
        print("Browser for the dashboard's tests:", *find())
    except RuntimeError as error:
        print(f"No browser: {error}. Its tests will fail; all others run.")


if __name__ == "__main__":
    main()
