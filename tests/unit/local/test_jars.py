"""Jars are the locked ones, or nothing runs."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import tomllib
from pathlib import Path

import pyspark
import pytest

from cutwater.core.errors import MachineError
from cutwater.local import jars as jars_module
from cutwater.local.jar_lock import LockedJar, lock_path, read_lock
from cutwater.local.jars import SPECS, jars, jars_from

PEERS = Path(__file__).parents[3] / "benchmarks" / "jars"
ALL_SPECS = [
    path for folder in (SPECS, PEERS) for path in folder.glob("*.toml") if not path.name.endswith(".lock.toml")
]


@pytest.fixture
def small_spec(tmp_path: Path) -> Path:
    """A committed set cut down to its smallest jar (200 KB), so that a test may download it."""
    spec = tmp_path / "small.toml"
    spec.write_text("[dependencies]\n")
    locked = next(jar for jar in read_lock(SPECS / "spark.lock.toml") if jar.artifact == "commons-pool2")
    lock_path(spec).write_text(
        f'[[dependencies]]\ngroupId = "{locked.group}"\nartifactId = "{locked.artifact}"\n'
        f'version = "{locked.version}"\nsha256 = "{locked.sha256}"\n'
    )
    return spec


def test_committed_locks_hold_hashes_and_no_hosts() -> None:
    """Every locked jar has a SHA-256, and neither specification nor lock names a repository or a path."""
    peers = {"kafka-streams", "flink", "mirrormaker", "compiler", "sketches"}
    known = {"kafka", "spark", "s3", "objectstore"} | peers
    assert {spec.stem for spec in ALL_SPECS} == known
    for spec in ALL_SPECS:
        text = spec.read_text() + lock_path(spec).read_text()
        assert "://" not in text
        assert not re.search(r"/(home|root|Users|tmp)/", text)
        assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in read_lock(lock_path(spec)))


def test_the_sets_hold_the_versions_the_design_names() -> None:
    """Spark gets its five plain jars and nothing else; the broker's clients are of the broker's version."""
    assert [jar.coordinate for jar in read_lock(SPECS / "spark.lock.toml")] == [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-avro_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
    ]
    s3 = read_lock(SPECS / "s3.lock.toml")
    assert {jar.version for jar in s3 if jar.group == "software.amazon.awssdk"} == {"2.35.4"}
    (spark,) = (Path(pyspark.__path__[0]) / "jars").glob("hadoop-client-api-*.jar")
    (connector,) = (jar for jar in s3 if jar.group == "org.apache.hadoop")
    assert spark.name == f"hadoop-client-api-{connector.version}.jar"
    kafka = [jar for jar in read_lock(SPECS / "kafka.lock.toml") if jar.group == "org.apache.kafka"]
    assert {jar.version for jar in kafka} == {"4.3.1"}
    assert "kafka-clients" in {jar.artifact for jar in kafka}


def test_flink_s_jars_are_of_one_version() -> None:
    """Each of Flink's own is of the version that its specification names, and none is there in two versions."""
    (named,) = {
        name.split(":")[2]
        for name in tomllib.loads((PEERS / "flink.toml").read_text())["dependencies"]["coordinates"]
        if "flink" in name and "-kafka:" not in name
    }
    locked = read_lock(PEERS / "flink.lock.toml")
    own = [jar for jar in locked if jar.group == "org.apache.flink" and "shaded" not in jar.artifact]
    assert {jar.version for jar in own if jar.artifact != "flink-connector-kafka"} == {named}
    assert len({jar.artifact for jar in locked}) == len(locked)


def test_a_lock_has_what_its_specification_names() -> None:
    """Where everything else is excluded, nothing else is there, and nothing is missing."""
    for spec in ALL_SPECS:
        wanted = tomllib.loads(spec.read_text())["dependencies"]
        if wanted.get("exclusions") == ["*:*"]:
            assert [jar.coordinate for jar in read_lock(lock_path(spec))] == wanted["coordinates"]


def _fetch(spec: Path, cache: Path) -> list[Path]:
    return jars_from(spec, cache)


def test_two_processes_download_once_and_agree(small_spec: Path, tmp_path: Path) -> None:
    """Two processes at once get the same checked files, and nothing half-finished stays behind."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.starmap(_fetch, [(small_spec, tmp_path / "cache")] * 2)
    assert first == second
    assert first[0].is_file()
    left = {path.name for path in (tmp_path / "cache" / "jars").iterdir()}
    assert left == {first[0].parent.name, f"{first[0].parent.name}.lock"}


def test_a_replaced_jar_is_found_on_every_use(small_spec: Path, tmp_path: Path) -> None:
    """A jar whose bytes changed after the download is refused by name, with what to do."""
    (jar,) = jars_from(small_spec, tmp_path)
    content = jar.read_bytes()
    jar.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(MachineError, match=r"SHA-256 of commons-pool2-2\.13\.1\.jar .* Delete"):
        jars_from(small_spec, tmp_path)


def test_a_download_that_is_not_the_locked_jar_never_gets_its_name(small_spec: Path, tmp_path: Path) -> None:
    """A download with another SHA-256 is refused, and the folder that readers trust does not appear."""
    lock = lock_path(small_spec)
    lock.write_text(re.sub(r'sha256 = ".{64}"', f'sha256 = "{"0" * 64}"', lock.read_text()))
    with pytest.raises(MachineError, match="commons-pool2"):
        jars_from(small_spec, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache" / "jars").iterdir() if path.is_dir()]


def test_an_incomplete_folder_is_filled_again(small_spec: Path, tmp_path: Path) -> None:
    """A folder from which somebody deleted a jar is downloaded anew."""
    (jar,) = jars_from(small_spec, tmp_path)
    jar.unlink()
    assert jars_from(small_spec, tmp_path)[0].is_file()


def test_whole_sets_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a set is there, using it downloads nothing."""
    jars("kafka")

    def refuse(jar: LockedJar, downloads: Path, target: Path) -> None:
        raise AssertionError(jar)

    monkeypatch.setattr(jars_module, "_download", refuse)
    assert all(path.is_file() for path in jars("kafka"))


def test_a_jar_that_does_not_exist_is_named(small_spec: Path, tmp_path: Path) -> None:
    """A jar that no repository has: bounded attempts, then an error with its coordinate."""
    lock = lock_path(small_spec)
    lock.write_text(lock.read_text().replace("2.13.1", "0.0.0-none"))
    with pytest.raises(MachineError, match=r"org\.apache\.commons:commons-pool2:0\.0\.0-none could not be"):
        jars_from(small_spec, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(small_spec: Path, tmp_path: Path) -> None:
    """A cache folder that refuses: the error names it and the variable that moves it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"cannot be stored in .*CUTWATER_CACHE_DIR"):
        jars_from(small_spec, tmp_path / "file")


def test_a_missing_lock_is_named(small_spec: Path) -> None:
    """Without its lock a specification is not used."""
    lock_path(small_spec).unlink()
    with pytest.raises(MachineError, match=r"small\.lock\.toml is missing or damaged"):
        jars_from(small_spec)


def test_the_cache_folder_can_be_moved(small_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUTWATER_CACHE_DIR says where downloads are kept."""
    monkeypatch.setenv("CUTWATER_CACHE_DIR", str(tmp_path / "elsewhere"))
    (jar,) = jars_from(small_spec)
    assert jar.is_relative_to(tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "elsewhere")


def test_a_download_says_how_large_it_is_and_how_far(small_spec: Path, tmp_path: Path) -> None:
    """Before it begins its size, then its progress; what is there already is not told."""
    size = next(jar.size for jar in read_lock(SPECS / "spark.lock.toml") if jar.artifact == "commons-pool2")
    assert size > 100_000
    lock = lock_path(small_spec)
    lock.write_text(f"{lock.read_text()}size = {size}\n")
    told: list[str] = []
    jars_from(small_spec, tmp_path / "cache", told.append)
    assert told[0] == f"fetching 1 jars for small, once: {size / 1e6:.1f} MB to download …"
    told.clear()
    jars_from(small_spec, tmp_path / "cache", told.append)
    assert told == []


def test_every_lock_says_the_sizes() -> None:
    for spec in ALL_SPECS:
        assert all(jar.size > 1_000 for jar in read_lock(lock_path(spec))), spec.name


def test_a_peer_counts_distinct_values_with_spark_s_own_library() -> None:
    """Its sketches are of the very version that Spark brings along, so their bytes and estimates compare."""
    bundled = {one.name for one in (Path(pyspark.__path__[0]) / "jars").glob("datasketches-*.jar")}
    assert {jar.file_name for jar in read_lock(PEERS / "sketches.lock.toml")} == bundled != set()
