"""Who imports whom inside the package, read from the source: imports in functions and under
TYPE_CHECKING count like any other."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
FOLDERS = {"lazyten": "lazyten", "codegen": "lazyten.codegen", "runtimes": "lazyten.runtimes"}
"""Where the packages lie in the checkout, as setup.cfg's package_dir says."""


def source_files() -> dict[str, Path]:
    """The file of every module, by import name; a package's name is that of its __init__.py."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            parts = path.relative_to(CHECKOUT / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def imports(name: str, source: str, modules: set[str], is_package: bool = False) -> set[str]:
    """Modules of `modules` that module `name` imports; `from package import x` is an import of
    the submodule x if there is one, and of the package itself otherwise."""
    found = set()
    for target, attribute in _imported_names(name, source, is_package):
        submodule = f"{target}.{attribute}"
        if submodule in modules:
            found.add(submodule)
        elif target in modules:
            found.add(target)
        elif target.partition(".")[0] == "lazyten":
            raise LookupError(f"{name} imports {target}, which does not exist")
    return found


def _imported_names(name: str, source: str, is_package: bool) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - is_package
                package = name if up == 0 else name.rsplit(".", up)[0]
                base = f"{package}.{base}".rstrip(".")
            yield from ((base, alias.name) for alias in node.names)


def import_graph() -> dict[str, set[str]]:
    """For every module of the checkout, the modules of the package that it imports."""
    files = source_files()
    return {name: imports(name, path.read_text(encoding="utf8"), set(files),
                          path.name == "__init__.py")
            for name, path in files.items()}
