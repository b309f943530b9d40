# SPDX-License-Identifier: BSD-2-Clause
"""The software bill of materials (SBOM) of the release files, as a CycloneDX document.

One document describes the release. Each release file is a component with its checksum, and depends
on its included components:

* C libraries: the sources of :mod:`release.libraries` and :mod:`release.interpreter`
* modules in a Debian package: ``bundled.txt``
* modules in the one-file program: ``one_file.txt``
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import build

from release.deb import BUNDLED
from release.interpreter import CAPSTONE, FFI
from release.libraries import PYTHON, SOURCES, Source
from release.one_file import REQUIREMENTS, one_file_name
from release.wheel import MACHINES, version

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

__all__ = ["Pinned", "document", "modules", "pinned"]

#: The licences of the included modules, from PyPI; typer contains a copy of click.
_TERMS = {
    "annotated-doc": "MIT",
    "capstone": "BSD-3-Clause",
    "cffi": "MIT",
    "click": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "msgspec": "BSD-3-Clause",
    "pygments": "BSD-2-Clause",
    "rich": "MIT",
    "shellingham": "ISC",
    "typer": "MIT AND BSD-3-Clause",
    "typing-extensions": "PSF-2.0",
}


class Pinned(NamedTuple):
    """A module of PyPI in one version, with the SHA-256 of its wheels or source."""

    name: str
    version: str
    sums: tuple[str, ...]


def pinned(text: str) -> list[Pinned]:
    """Return the modules in ``text``, a requirements file with hashes."""
    _, *found = re.split(r"^([\w-]+)==(\S+)", text, flags=re.MULTILINE)
    return [
        Pinned(name.lower(), number, tuple(re.findall("--hash=sha256:([0-9a-f]{64})", rest)))
        for name, number, rest in zip(found[::3], found[1::3], found[2::3], strict=True)
    ]


def modules() -> dict[str, list[Pinned]]:
    """Return the included modules: in a package (``deb``), and in the one file (``one file``)."""
    files = {"deb": BUNDLED, "one file": REQUIREMENTS}
    return {name: pinned(path.read_text()) for name, path in files.items()}


def _library(one: Source) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from packageurl import PackageURL

    purl = PackageURL("deb", "debian", one.package, one.version, {"arch": "source"})
    return Component(
        name=one.package,
        version=one.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"source:{one.package}",
        purl=purl,
        licenses=[LicenseExpression(one.licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one.sha256)],
        properties=[
            Property(name="retsnoop-py:source", value=one.tarball),
            Property(name="retsnoop-py:suite", value=build.SOURCE_SUITE),
            Property(name="retsnoop-py:linked", value="static"),
        ],
    )


def _module(one: Pinned) -> Component:
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from packageurl import PackageURL

    # There is a file for each machine and Python, but a component can have only one sum per kind.
    return Component(
        name=one.name,
        version=one.version,
        type=ComponentType.LIBRARY,
        bom_ref=_reference(one),
        purl=PackageURL("pypi", None, one.name, one.version),
        licenses=[LicenseExpression(_TERMS[one.name])],
        properties=[Property(name="retsnoop-py:sha256", value=each) for each in one.sums],
    )


def _reference(one: Pinned) -> str:
    return f"pypi:{one.name}=={one.version}"


def _needed() -> Iterator[Component]:
    """Yield the packages that pip downloads for a wheel, in a version that pip selects."""
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    told = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    for wanted in told["dependencies"]:
        name, span = re.match(r"([\w-]+)(.*)", wanted).groups()  # type: ignore[union-attr]
        yield Component(
            name=name,
            type=ComponentType.LIBRARY,
            bom_ref=f"needed:{name}",
            purl=PackageURL("pypi", None, name),
            properties=[
                Property(name="retsnoop-py:versions", value=span),
                Property(name="retsnoop-py:linked", value="installed beside it"),
            ],
        )


def _file(path: Path) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType

    return Component(
        name=path.name,
        version=version(),
        type=ComponentType.FILE,
        bom_ref=f"file:{path.name}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=build.sha256(path))],
    )


def document(files: Sequence[Path], epoch: int) -> str:
    """Return the document for the release ``files``, made at ``epoch``, as JSON.

    Raises BuildError if the document is not valid CycloneDX 1.6.
    """
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bom = _bom(files, epoch)
    text: str = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(
        indent=2
    )
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise build.BuildError(f"the SBOM is not valid CycloneDX: {wrong}")
    return f"{text}\n"


def _bom(files: Sequence[Path], epoch: int) -> Bom:
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from packageurl import PackageURL

    whole = Component(
        name="retsnoop-py",
        version=version(),
        type=ComponentType.APPLICATION,
        bom_ref="retsnoop-py",
        purl=PackageURL("pypi", None, "retsnoop-py", version()),
        licenses=[LicenseExpression("BSD-2-Clause")],
    )
    sources = [_library(one) for one in (*SOURCES.values(), PYTHON, FFI, CAPSTONE)]
    brought = {_reference(one): one for some in modules().values() for one in some}
    for name, module in brought.items():
        same = [each for some in modules().values() for each in some if _reference(each) == name]
        sums_of = {one_sum for each in same for one_sum in each.sums}
        brought[name] = module._replace(sums=tuple(sorted(sums_of)))
    along = [_module(one) for one in brought.values()]
    needed = list(_needed())
    handed_out = [_file(path) for path in files]
    sums = "".join(build.sha256(path) for path in files)
    bom = Bom(
        # The same release always has the same serial number.
        serial_number=uuid5(NAMESPACE_URL, f"retsnoop-py {version()} {sums}"),
        metadata=BomMetaData(component=whole, timestamp=datetime.fromtimestamp(epoch, UTC)),
        components=[*sources, *along, *needed, *handed_out],
    )
    bom.register_dependency(whole, handed_out)
    for one in handed_out:
        bom.register_dependency(one, _inside(one.name, sources, along, needed))
    return bom


def _inside(
    name: str,
    sources: Sequence[Component],
    along: Sequence[Component],
    needed: Iterable[Component],
) -> list[Component]:
    """Return the components that the file ``name`` contains or downloads."""
    linked = [one for one in sources if one.name in SOURCES]

    def brought(by: str) -> list[Component]:
        told = {_reference(one) for one in modules()[by]}
        return [one for one in along if str(one.bom_ref) in told]

    if name.endswith(".whl"):
        return [*linked, *needed]
    if name.endswith(".deb"):
        return [*linked, *brought("deb")]
    if name in map(one_file_name, MACHINES):
        return [*sources, *brought("one file")]
    if name.endswith(".tar.gz"):  # contains libbpf's source
        return [*(one for one in sources if one.name == "libbpf"), *needed]
    raise build.BuildError(f"what is inside of {name}? release/sbom.py does not know")
