"""The C++ sources of a checkout, as the checkers see them: without comments, with includes resolved."""

import dataclasses
import pathlib
import re

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".inc"}

# In the order of dependence: a file includes only from its own layer and from the ones before it.
LAYERS = ["core", "config", "tokenizer", "data", "device", "kernels", "batching", "model", "optim", "metrics",
          "checkpoint", "distributed", "report", "tasks", "train", "doctor", "cli"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    quoted: bool
    name: str


@dataclasses.dataclass(frozen=True)
class Source:
    root: pathlib.Path
    path: pathlib.Path  # relative to the root

    @property
    def layer(self):
        parts = self.path.parts
        return parts[2] if parts[0] == "include" else parts[1]

    def text(self):
        return (self.root / self.path).read_text(encoding="utf-8")

    def code_lines(self):
        """Lines without comments and string literals, numbered from 1."""
        blank = COMMENT_OR_STRING.sub(lambda match: "\n" * match.group().count("\n"), self.text())
        return enumerate(blank.split("\n"), start=1)

    def includes(self):
        text = self.text()
        return [Include(text.count("\n", 0, m.start(1)) + 1, m.group(1) == '"', m.group(2))
                for m in INCLUDE.finditer(text)]

    def included_layer(self, include):
        """The layer that an include leads to, or None where it is no file of ours."""
        if include.name.startswith("finetune/"):
            return include.name.split("/")[1]
        if not include.quoted:
            return None
        beside = (self.root / self.path).parent / include.name
        for candidate in (beside, self.root / "src" / include.name):
            if candidate.exists():
                return Source(self.root, candidate.resolve().relative_to(self.root.resolve())).layer
        return None


def all_sources(root):
    root = pathlib.Path(root)
    found = []
    for top in ("include/finetune", "src"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                found.append(Source(root, path.relative_to(root)))
    return found
