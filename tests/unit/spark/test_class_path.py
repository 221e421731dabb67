"""The class path of a driver, by what its archive of classes was made with."""

from __future__ import annotations

from pathlib import Path

from cutwater_spark.class_path import class_path, jars_file, jars_of


def test_without_an_archive_all_jars_are_sparks_to_load(tmp_path: Path) -> None:
    assert jars_of("") == class_path("", ["a.jar"]) == []
    assert jars_of(str(tmp_path / "not-made.jsa")) == []


def test_an_archive_that_lacks_one_of_the_jars_is_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    jars_file(archive).write_text("a.jar\nb.jar\n", encoding="utf-8")
    assert class_path(str(archive), ["b.jar", "a.jar", "c.jar"]) == ["a.jar", "b.jar"]
    assert class_path(str(archive), ["a.jar", "c.jar"]) == []
