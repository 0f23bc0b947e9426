"""Files that were damaged by accident or on purpose, drawn by seed."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

HUGE = 10**12
NASTY: tuple[Any, ...] = (
    *(HUGE, 10**7, 10**30, 2**63, -1, 0, 1, 2, 3.5, 1e308, -0.0, float("nan"), float("inf")),
    *(True, False, None, "", "é\x00\n", "\ud800", "x" * 1000, "1", "nan", "os.system"),
    *("../../etc/passwd", "/dev/zero", "/dev/stdin", "~root", "a/../b", "C:\\x", ".", ".."),
    *([], [1], [[[]]], {}, {"a": 1}, ["margin"] * 1000, [None], [float("nan")]),
)
SPLICES = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        *(
            "",
            "\x00",
            '"',
            "'",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "-",
            "9",
            "null",
            "\\u",
            "\n",
            "é",
        ),
        *("NaN", "Infinity", "1e999", "9" * 5000, "[" * 3000, '{"a":' * 3000, "\ud800", "é"),
    )
)
YAML = tuple(
    text.encode()
    for text in (
        "!!python/object/apply:os.system ['touch MARKER'] ",
        "!!python/name:os.system ",
        "!!python/object/new:pathlib.Path [MARKER] ",
        "!!python/module:os ",
        "!ruby/object:Gem ",
        *("&a [*a, *a] ", "*nothing ", "<<: *a\n", "? ", "--- ", "\t", "- ", "| ", ">+\n", "%"),
        *(
            "!!binary x",
            "!!int x",
            "!!float .",
            "!!set {a}",
            "!!timestamp 1",
            "2024-02-31",
            "1:9",
        ),
    )
)
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
)
"""aliases that stand for 9**10 texts"""
MERGE_BOMB = "\n".join(
    ["a0: &a0 {x: 1}"]
    + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 10)]
)
"""a mapping that YAML's merge key makes 9**9 times as long"""

Draw = random.Random
Change = Callable[[bytes, Draw], bytes]


def changed_bytes(data: bytes, draw: Draw, splices: Sequence[bytes] = SPLICES) -> bytes:
    """Bytes flipped, cut out, put in; or the end cut off."""
    if draw.random() < 0.1:
        return data[: draw.randrange(len(data) + 1)]
    for _ in range(draw.randint(1, 4)):
        # half of the changes near the start, where headers are
        reach = min(len(data), 400) if draw.random() < 0.5 else len(data)
        at = draw.randrange(reach + 1)
        cut = at + draw.choice([0, 0, 1, 1, 8, 100])
        new = draw.choice([*splices, draw.randbytes(draw.randint(1, 8))])
        data = data[:at] + new + data[cut:]
    return data


def changed_value(value: Any, draw: Draw) -> Any:
    """The same nest of plain values with something nasty, missing or renamed inside."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        return rest | draw.choice([
            *({},),
            *({f"{key}x": value[key]}, {"__class__": value[key]}),
            *({key: changed_value(value[key], draw)},) * 7,
        ])  # fmt: skip
    if isinstance(value, list | tuple) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        kept = [*value[:place], *value[place + 1 :]]
        inside = [*value[:place], changed_value(value[place], draw), *value[place + 1 :]]
        return draw.choice([kept, inside, inside, [*value, *value]])
    return draw.choice(NASTY)


def changed_json(data: bytes, draw: Draw) -> bytes:
    """A JSON file changed in its values or its bytes."""
    if draw.random() < 0.3:
        return changed_bytes(data, draw)
    return json.dumps(changed_value(json.loads(data), draw)).encode("utf-8", "surrogatepass")


def changed_yaml(data: bytes, draw: Draw) -> bytes:
    """A YAML file changed in its bytes, with tags and aliases among what is put in."""
    if draw.random() < 0.05:
        return (
            data + b"\n" + draw.choice([BOMB, MERGE_BOMB]).encode() + b"\n" + draw.choice(YAML)
        )
    return changed_bytes(data, draw, (*SPLICES, *YAML, *YAML))
