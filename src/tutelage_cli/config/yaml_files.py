"""YAML files read as plain values, whoever wrote them."""

from pathlib import Path
from typing import Any

import yaml

from tutelage.errors import UsageError

LONGEST = 1000
"""keys of a mapping, those that merge keys bring in included"""


class _Loader(yaml.SafeLoader):
    # A key given twice is an error; SafeLoader keeps the last and drops the others.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else key
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {name!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return node

    # Merge keys of merge keys double a mapping with each line, or worse.
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > LONGEST:
            raise yaml.MarkedYAMLError(
                problem=f"a mapping has over {LONGEST} keys", problem_mark=node.start_mark
            )


def read_yaml(file: Path) -> Any:
    """What a YAML file holds. No tag of it makes more than plain values."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); give the path of a YAML file"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{file}: not valid YAML{line}: {error.problem}") from error
    # Values such as !!int x or the date 2024-02-31 fail in Python rather than in YAML.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{file}: not valid YAML: {reason}") from error
