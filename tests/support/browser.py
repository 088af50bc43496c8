"""A page in a real browser: Chromium without a screen, where one is installed."""
from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--virtual-time-budget=20000", "--dump-dom")
FAULTS = """<script>
const faults = [];
addEventListener("error", e => faults.push(e.message));
addEventListener("unhandledrejection", e => faults.push(String(e.reason)));
addEventListener("securitypolicyviolation", e => faults.push("loads " + e.blockedURI));
</script>"""
BEHIND = """<script>
(async () => {
  while (!document.body.dataset.ready) await new Promise(r => setTimeout(r, 10));
  const result = await (async () => { %s })().catch(e => ({error: String(e)}));
  document.body.textContent = "RESULT " + btoa(unescape(encodeURIComponent(
    JSON.stringify({result, faults})))) + " END";
})();
</script>"""


def found() -> str | None:
    """The path of a browser, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def run(page: Path, script: str, folder: Path) -> Any:
    """What a script (the body of an async function) gives in a page that is ready. AssertionError
    for errors in the page, and for anything that it loads."""
    text = page.read_text("utf8").replace("<head>", f"<head>{FAULTS}", 1) + BEHIND % script
    copy = folder / "in_browser.html"
    copy.write_text(text, "utf8")
    browser = found()
    assert browser is not None
    dumped = subprocess.run([browser, *OPTIONS, f"--user-data-dir={folder / 'user'}",
                             copy.as_uri()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            timeout=120, check=True).stdout.decode()
    match = re.search(r"RESULT (\S+) END", dumped)
    assert match is not None, dumped[-2000:]
    answer = json.loads(base64.b64decode(match[1]))
    assert answer["faults"] == []
    return answer["result"]
