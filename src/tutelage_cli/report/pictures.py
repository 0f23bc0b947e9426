"""Training examples as pictures inside the page."""

import base64
import io
from collections.abc import Mapping
from html import escape

from PIL import Image

from tutelage_cli.report import formats
from tutelage_cli.report.content import Example, LeastTrusted, Pixels

SIDE = 84  # pixels that the longer side of a small picture should come near
MOST = 2 * SIDE  # pixels beyond which a large picture is reduced


def data_uri(image: Pixels) -> str:
    """A picture as PNG inside a ``data:`` address.

    Small pictures grow by a whole factor without smoothing, so that every pixel stays a square.
    """
    longest = max(image.shape[:2])
    picture = Image.fromarray(image)
    if longest > MOST:
        picture.thumbnail((MOST, MOST), Image.Resampling.BOX)
    else:
        factor = max(1, round(SIDE / longest))
        size = (factor * picture.width, factor * picture.height)
        picture = picture.resize(size, Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def gallery(pictures: LeastTrusted) -> str:
    """The pictures of one arm as a grid, each with its labels, weight and loss."""
    return f'<div class="gallery">{"".join(_figure(item) for item in pictures.items)}</div>'


def _figure(picture: Example) -> str:
    assert not isinstance(picture.shown, str)
    facts = {"given": picture.given, "predicted": picture.predicted}
    kind = "unknown"
    if picture.true is not None:
        facts["true"] = picture.true
        kind = "right" if picture.true == picture.given else "wrong"
    facts["weight"] = formats.number(picture.weight)
    facts["loss"] = formats.number(picture.loss)
    alt = f"Training example {picture.id}, labelled {picture.given}"
    return pictured(picture.shown, alt, facts, kind=kind)


def pictured(
    image: Pixels, alt: str, facts: Mapping[str, str], *, kind: str, address: str = ""
) -> str:
    """One picture above what is known of it; it opens its address, where it has one."""
    listed = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    drawn = f'<img src="{data_uri(image)}" alt="{escape(alt)}">'
    if address:
        drawn = f'<a href="{escape(address)}" title="Open the file">{drawn}</a>'
    return (
        f'<figure class="picture {kind}">{drawn}'
        f"<figcaption><dl>{listed}</dl></figcaption></figure>"
    )
