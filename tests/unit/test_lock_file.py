"""The lock file of releases is that of the dependencies as they are declared; `make lock-check` says so more strictly."""

from __future__ import annotations

import tomllib
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.support.documents import ROOT


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def _declared() -> set[tuple[str, str, str, str]]:
    """Extra, name, extras and versions of each requirement."""
    project = _read("pyproject.toml")["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    found = {(extra, Requirement(text)) for extra, texts in groups.items() for text in texts}
    return {
        (extra, each.name.lower().replace("_", "-"), ",".join(sorted(each.extras)), str(each.specifier))
        for extra, each in found
    }


def test_it_has_what_is_declared_and_nothing_else() -> None:
    (ours,) = (package for package in _read("uv.lock")["package"] if package["name"] == "agentmd")
    locked = {
        (
            each.get("marker", "").removeprefix("extra == '").removesuffix("'"),
            each["name"],
            ",".join(sorted(each.get("extras", ()))),
            str(SpecifierSet(each.get("specifier", ""))),
        )
        for each in ours["metadata"]["requires-dist"]
    }
    assert locked == _declared(), "pyproject.toml was changed: run `make lock`"


def test_every_package_of_it_has_hashes_and_comes_from_the_registry() -> None:
    for package in _read("uv.lock")["package"]:
        if package["name"] == "agentmd":
            continue
        assert package["source"] == {"registry": "https://pypi.org/simple"}, package["name"]
        files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        assert files
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]
