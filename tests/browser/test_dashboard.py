"""`ledger-tui --web` in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.server.test_web import dashboard_in_browsers

# The darkest of the colours at the right and the lower edge of a picture, 0 to 255.
DARKEST = """
const [picture, done] = arguments, image = new Image();
image.onload = () => {
    const {width, height} = image, canvas = new OffscreenCanvas(width, height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const edges = [[width - 1, 0, 1, height], [0, height - 1, width, 1]];
    done(Math.min(...edges.flatMap(edge => [...canvas.getImageData(...edge).data])));
};
image.src = "data:image/png;base64," + picture;
"""


def test_beside_a_dashboard_in_the_light_theme_there_is_no_dark_strip(chromium: Any, tmp_path: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    (tmp_path / "config.toml").write_text('theme = "ledger-light"\n')
    # No number of whole rows or columns.
    size = {"width": 1003, "height": 701, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    with ContractServer() as server, dashboard_in_browsers(server, tmp_path) as link:
        chromium.get(link)
        logo = "return getComputedStyle(document.querySelector('.intro svg')).display"
        assert chromium.execute_script(logo) == "none"
        shown = "return document.body.classList.contains('-first-byte')"
        WebDriverWait(chromium, 60).until(lambda _: chromium.execute_script(shown))
        picture = chromium.get_screenshot_as_base64()
    chromium.get("about:blank")
    assert chromium.execute_async_script(DARKEST, picture) > 200
