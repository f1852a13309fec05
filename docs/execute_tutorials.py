"""Executes the tutorials and keeps what they show: `make tutorials`, or `python -m docs.execute_tutorials 01_pendulum`.

Notebooks go to `docs/tutorials/executed/`, and the picture of the cell with the tag `thumbnail` to
`docs/tutorials/thumbnails/`.  Nothing in them tells when and where they ran: cells are numbered, lines about
compilation are left out, pictures have 256 colours and no more pixels than a page shows.
"""

import base64
import os
import re
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image, ImageOps

from docs.percent_scripts import FOLDER, cells, executed, scripts

ROOT = Path(__file__).resolve().parents[1]
WIDTH, THUMBNAIL = 1000, (360, 260)
"""Pixels."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def smaller(image: Image.Image, size: tuple[int, int]) -> bytes:
    """A PNG with at most so many pixels, of 256 colours, that says nothing of who made it."""
    image = image.convert("RGB")
    image.thumbnail(size, Image.Resampling.LANCZOS)
    out = BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(out, format="png", optimize=True)
    return out.getvalue()


def opened(text: str) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(text)))


def kept(output):
    """An output without what differs from run to run; None for lines on the standard error."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    if output.output_type == "error":
        raise RuntimeError(output.evalue)
    if " at 0x" in output.data.get("text/plain", ""):
        raise ValueError(f"a cell ends with {output.data['text/plain']}: end it with what is to be seen")
    if "image/png" in output.data:
        picture = smaller(opened(output.data["image/png"]), (WIDTH, WIDTH))
        output.data["image/png"] = base64.b64encode(picture).decode() + "\n"
    output.metadata = {}
    return output


def notebook_of(script: Path):
    """The notebook of a tutorial, executed in an empty folder."""
    make = {"markdown": new_markdown_cell, "code": new_code_cell}
    notebook = new_notebook(metadata=METADATA)
    for number, cell in enumerate(cells(script.read_text(encoding="utf-8"))):
        tags = {"tags": list(cell.tags)} if cell.tags else {}
        notebook.cells.append(make[cell.kind](cell.source, id=f"cell-{number:02}", metadata=tags))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(stderr=subprocess.DEVNULL)  # of the process; that of cells is dropped below
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(kept, cell.outputs) if output is not None]
            pictures = [
                opened(output.data["image/png"]) for output in cell.outputs if "image/png" in output.get("data", {})
            ]
            if any(picture.width == WIDTH for picture in pictures):
                cell.metadata["mystnb"] = {"image": {"classes": "wide"}}  # scrolls on narrow windows
    return notebook


def thumbnail(notebook) -> bytes:
    """The picture of the cell that has the tag, or one out of its moving picture, on white."""
    (cell,) = (cell for cell in notebook.cells if "thumbnail" in cell.metadata.get("tags", []))
    shown = cell.outputs[-1].data
    gif = re.search('data:image/gif;base64,([^"]*)', shown.get("text/html", ""))
    picture = opened(gif[1] if gif else shown["image/png"])
    if gif:
        picture.seek(2 * picture.n_frames // 3)
    return smaller(ImageOps.pad(picture.convert("RGB"), THUMBNAIL, color="white"), THUMBNAIL)


def main(names: list[str]) -> None:
    os.environ["PYTHONPATH"] = str(ROOT)
    for folder in ("executed", "thumbnails"):
        (FOLDER / folder).mkdir(exist_ok=True)
    for script in scripts():
        if names and script.stem not in names:
            continue
        notebook = notebook_of(script)
        path = executed(script)
        nbformat.write(notebook, path)
        (FOLDER / "thumbnails" / f"{script.stem}.png").write_bytes(thumbnail(notebook))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
