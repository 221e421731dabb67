PATCHES = [
    (
        "benchmarks/publishing/changelog.py",
        "if last else ROOT_HASH, barriers_position=0,",
        "if last else ROOT_HASH,\n            barriers_position=0,",
    ),
    (
        "benchmarks/rehydrate/log.py",
        "if last else ROOT_HASH, barriers_position=0,",
        "if last else ROOT_HASH,\n            barriers_position=0,",
    ),
    (
        "tests/mutation/score.py",
        "a sample, the same each time. What\nwas run stays in `build/mutation`: a run that was broken off goes on. `make mutate AGAIN=1` tries those once more\nthat no test noticed,",
        "a sample, the same each\ntime. What was run stays in `build/mutation`: a run that was broken off goes on. `make mutate AGAIN=1` tries those\nonce more that no test noticed,",
    ),
    ("pyproject.toml", 'pythonpath = [".", "tests", "tests/broker"]', 'pythonpath = [".", "tests"]'),
    # the tree of core has folders now
    (
        "tests/docs/test_architecture.py",
        '(ROOT / "services/cutwater/core").glob("*.py")',
        '(ROOT / "services/cutwater/core").rglob("*.py")',
        2,
    ),
    (
        "tests/docs/test_tiers.py",
        'if one.parent.name in {"tests", "services"}]',
        'if one.parent.name == "tests" or {"support", "unit", "broker"} & set(one.parts)]',
    ),
    (
        "tests/docs/test_reference.py",
        '{path.parent.name for path in (ROOT / "services/cutwater").glob("*/metrics.py")}',
        '{path.relative_to(CODE).parts[0] for path in CODE.rglob("metrics.py")}',
    ),
    ("tests/docs/test_reference.py", "\nELSEWHERE = ", '\nCODE = ROOT / "services/cutwater"\nELSEWHERE = '),
    (
        "tests/unit/cli/test_verb_tables.py",
        '(ROOT / "services/cutwater/cli").glob("*.py")',
        '(ROOT / "services/cutwater/cli").rglob("*.py")',
    ),
    (
        "tests/unit/cli/test_verb_tables.py",
        '{"output", "entries", "seeding", "standing", "verify_regions"}',
        '{"report", "entries", "resync", "status_rows", "verify_regions"}',
    ),
    (
        "tests/unit/cli/test_verb_tables.py",
        '("restore", "retire", "snapshots", "stack", "state", "stream", "tail", "verify")',
        '("restore", "snapshots", "up", "get", "milestones", "tail", "verify")',
    ),
    ("tests/unit/cli/test_verb_tables.py", '*("config", "doctor", "export", "forks", "generation", "history", "mirror",', '*("config", "doctor", "export", "forks", "generation", "history", "mirror",'),
    ("tests/unit/adapters/http/test_proxies.py", '    "docs/_generate/service_pages.py",  # within the process\n', ""),
    # programs that tests start: they find the helpers below tests/
    ("tests/spark/test_nothing_lost.py", "Path(crashing_driver.__file__).parent)", "Path(crashing_driver.__file__).parents[1])"),
    ("tests/spark/test_nothing_lost.py", 'job.start("crashing_driver"', 'job.start("support.crashing_driver"'),
    ("tests/spark/test_decoding_change.py", "Path(crashing_driver.__file__).parent)", "Path(crashing_driver.__file__).parents[1])"),
    ("tests/spark/test_decoding_change.py", 'job.start("crashing_driver"', 'job.start("support.crashing_driver"'),
    ("tests/support/crashing_driver.py", "python -m crashing_driver ", "python -m support.crashing_driver "),
    ("tests/broker/views/bulk/test_bulk_loader.py", '"paths": [str(tests), str(tests.parent)]', '"paths": [str(tests)]'),
    ("tests/broker/views/snapshots/test_restore_traps.py", '"paths": [str(tests), str(tests.parent)]', '"paths": [str(tests)]'),
    (
        "tests/docs/test_architecture.py",
        None,
        '''

def test_no_folder_has_too_many_files() -> None:
    """Whoever looks for the place of a change reads the list of files."""
    count: Counter[str] = Counter()
    for folder in ("services", "spark", "benchmarks", "tests"):
        count.update(
            path.parent.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*.py")
            if path.name != "__init__.py"
        )
    assert [one for one, number in count.items() if number > (40 if one.startswith("tests") else 14)] == []
''',
    ),
    ("tests/docs/test_architecture.py", "import sys\nfrom pathlib import Path\n", "import sys\nfrom collections import Counter\nfrom pathlib import Path\n"),
    ("services/cutwater/watch/service.py", "(`watching`, `judging`)", "(`monitoring.job_status_fold`, `monitoring.alert_changes`)", 0),
    ("pyproject.toml", '"cutwater_spark", "benchmarks"]\n', '"cutwater_spark", "benchmarks", "docs._generate"]\n'),
    (
        "ARCHITECTURE.md",
        "  services --> views[views]\n",
        "  services --> operations[operations]\n  operations --> views[views]\n",
    ),
    ("ARCHITECTURE.md", "  spark[cutwater_spark] --> views\n", "  spark[cutwater_spark] --> operations\n"),
    (
        "ARCHITECTURE.md",
        "| `services/cutwater/views` | the materialised state",
        "| `services/cutwater/operations` | use cases that services and the command line share |\n"
        "| `services/cutwater/views` | the materialised state",
    ),
    # a package for each folder is imported, too
    ("tests/unit/cli/test_cli_imports.py", "LISTS_MAX, ASKS_MAX = 400, 900", "LISTS_MAX, ASKS_MAX = 400, 940", 0),
]
