"""Makes pictures/terminal.svg, the README's picture of a terminal, from what kz prints on the sample.

    python docs/make_terminal.py

rich draws it: the same text gives the same bytes. tests/e2e/test_pages.py compares the text with what kz prints.
"""

from __future__ import annotations

import html
import io
import re
import subprocess
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/terminal.svg"
COLUMNS = 94
COMMANDS = (
    "kz -C examples/sample build | grep libminirt.so",
    "kz -C examples/sample verify --onto v0.3.0 | head -9",
)
FORMAT = re.sub(r"@font-face {{.*?}}\n", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "ui-monospace, Menlo")
"""rich's, without the font that it loads from elsewhere."""


def picture(text: str) -> str:
    """Draw a terminal with this text, in which commands stand behind `$ `."""
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, color_system="truecolor", force_terminal=True)
    for line in text.split("\n"):
        typed = line.startswith("$ ")
        console.print(Text.assemble(("$ ", "green"), (line[2:], "bold")) if typed else Text(line))
    return console.export_svg(title="", theme=MONOKAI, code_format=FORMAT, unique_id="kz")


def text_of(svg: str) -> str:
    """Return the text of a picture."""
    lines: dict[str, str] = {}
    for height, part in re.findall(r'<text class="kz-r\d+" x="[^"]*" y="([^"]*)"[^>]*>([^<]*)</text>', svg):
        lines[height] = lines.get(height, "") + html.unescape(part).replace("\xa0", " ").strip("\n")
    return "\n".join(lines.values())


def main() -> None:
    """Run the commands in this checkout and write the picture."""
    text = ""
    for command in COMMANDS:
        output = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
        text += f"$ {command}\n{output}"
    PICTURE.write_text(picture(text.rstrip("\n")))


if __name__ == "__main__":
    main()
