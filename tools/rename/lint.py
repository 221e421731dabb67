"""Prints the [tool.importlinter] section of a moved tree: the wanted rules, and the imports that do not keep them yet.

    PYTHONPATH=services:spark python lint.py > section
"""

import sys

import grimp

SERVICES = ["client", "commit_signal", "mirror", "publisher", "rehydrator", "watch"]
LAYERS = [
    ("Layers: each imports only what is below it; the services never each other", "cutwater", [
        ["cli"], ["demo", "testing", "verify"], ["local"], SERVICES, ["operations"], ["views"], ["adapters"], ["core"],
    ]),
    ("Layers of core", "cutwater.core", [
        ["failover", "monitoring"], ["driver", "mirror", "query"], ["checks", "generations", "output"], ["state"],
        ["protocol"], ["job"], ["events"], ["util"], ["errors"],
    ]),
    ("Layers of adapters", "cutwater.adapters", [
        ["events", "topics", "object_store", "http"], ["config", "fetch"], ["kafka", "job_files"],
        ["avro", "columnar", "runtime", "hashing", "sketches"],
    ]),
    ("Layers of views", "cutwater.views", [["snapshots"], ["follow"], ["bulk"], ["changelog", "query"], ["store"]]),
    ("Layers of the rehydrator", "cutwater.rehydrator", [
        ["service"], ["generation"], ["app"], ["routes"], ["http_api"], ["cluster"], ["metrics"],
    ]),
    ("Layers of the mirror", "cutwater.mirror", [
        ["service"], ["copier"], ["arrivals", "resync", "slot"], ["topics"], ["metrics"],
    ]),
]
LIBRARIES = [
    ("confluent_kafka", ["cutwater.adapters.kafka", "cutwater.adapters.events"], ["cutwater", "cutwater_spark"]),
    ("aiokafka", ["cutwater.adapters.fetch", "cutwater.watch"], ["cutwater", "cutwater_spark"]),
    ("rocksdict", ["cutwater.views.store", "cutwater.views.bulk.worker"], ["cutwater", "cutwater_spark"]),
    ("fastapi", ["cutwater.rehydrator"], ["cutwater", "cutwater_spark"]),
    ("typer", ["cutwater.cli", "cutwater.demo"], ["cutwater", "cutwater_spark"]),
    ("rich", ["cutwater.cli", "cutwater.demo"], ["cutwater", "cutwater_spark"]),
    ("httpx", [], ["cutwater.core", "cutwater.adapters.kafka", "cutwater.views"]),
]
IMPURE = ["logging", "time", "socket", "threading", "subprocess"]
SPARK_NEVER = ["cli", "demo", "testing", "local", *SERVICES, "verify"]

graph = grimp.build_graph("cutwater", "cutwater_spark", include_external_packages=True, cache_dir=None)
IMPORTS = sorted((importer, imported) for importer in graph.modules for imported in graph.find_modules_directly_imported_by(importer))


def within(module, package):
    return module == package or module.startswith(package + ".")


def upward(container, layers):
    """The imports that a layer may not have: of what is above it, or beside it."""
    place = {f"{container}.{one}": at for at, layer in enumerate(layers) for one in layer}
    found = []
    for importer, imported in IMPORTS:
        a = next((one for one in place if within(importer, one)), None)
        b = next((one for one in place if within(imported, one)), None)
        if a and b and a != b and place[b] <= place[a]:
            found.append((importer, imported))
    return found


def listed(name, values):
    lines = "".join(f'  "{one}",\n' for one in values)
    return f"{name} = [\n{lines}]\n" if lines else ""


def ignored(pairs):
    return listed("ignore_imports", [f"{a} -> {b}" for a, b in sorted(set(pairs))])


out = ['[tool.importlinter]\nroot_packages = ["cutwater", "cutwater_spark"]\ninclude_external_packages = true\n']
head = "[[tool.importlinter.contracts]]\n"
breaking = []
for name, container, layers in LAYERS:
    there = [[one for one in layer if f"{container}.{one}" in graph.modules] for layer in layers]
    lacking = [one for layer in layers for one in layer if f"{container}.{one}" not in graph.modules]
    if lacking:
        print(f"{container} has no {lacking}", file=sys.stderr)
    wrong = upward(container, there)
    breaking += wrong
    text = f'{head}name = "{name}"\ntype = "layers"\ncontainers = ["{container}"]\n'
    out.append(text + listed("layers", [" | ".join(layer) for layer in there if layer]) + ignored(wrong))
out.append(
    f'{head}name = "The Spark side uses core, adapters, views and operations only"\ntype = "forbidden"\n'
    'source_modules = ["cutwater_spark"]\n' + listed("forbidden_modules", [f"cutwater.{one}" for one in SPARK_NEVER])
)
out.append(
    f'{head}name = "The services never import Spark"\ntype = "forbidden"\nsource_modules = ["cutwater"]\n'
    'forbidden_modules = ["cutwater_spark", "pyspark"]\n'
)
known = [one for one in IMPURE if one in graph.modules]
packages = sorted({one for one in graph.modules if "." not in one and graph.is_module_squashed(one)} - set(sys.stdlib_module_names))
impure = [(a, b) for a, b in IMPORTS if within(a, "cutwater.core") and b in IMPURE]
out.append(
    f'{head}name = "core is pure"\ntype = "forbidden"\nsource_modules = ["cutwater.core"]\n'
    + listed("forbidden_modules", sorted({*known, *packages})) + ignored(impure)
)
for library, homes, of in LIBRARIES:
    importers = [a for a, b in IMPORTS if b == library and any(within(a, one) for one in of)]
    inside, outside = [], []
    for one in importers:
        (inside if any(within(one, place) for place in homes) else outside).append(one)
    wild = sorted({next(place for place in homes if within(one, place)) for one in inside})
    lines = []
    for place in wild:
        if place in inside:
            lines.append(f"{place} -> {library}")
        if any(one != place and within(one, place) for one in inside):
            lines.append(f"{place}.** -> {library}")
    lines += [f"{one} -> {library}" for one in outside]
    where = " and ".join(homes) if homes else "nowhere in " + ", ".join(of)
    out.append(
        f'{head}name = "{library}: {"only in " if homes else ""}{where}"\ntype = "forbidden"\n'
        + f"source_modules = {[*of]}\n".replace("'", '"')
        + f'forbidden_modules = ["{library}"]\nallow_indirect_imports = true\n'
        + listed("ignore_imports", lines)
    )
for a, b in set(breaking):
    graph.remove_import(importer=a, imported=b)
cycles = []


def search(ancestor):
    children = graph.find_children(ancestor)
    if len(children) >= 2:
        for a, b in sorted(graph.nominate_cycle_breakers(ancestor)):
            cycles.append((a, b))
            graph.remove_import(importer=a, imported=b)
    for one in sorted(children):
        search(one)


for root in ("cutwater", "cutwater_spark"):
    search(root)
out.append(
    f'{head}name = "No cycles"\ntype = "acyclic_siblings"\nancestors = ["cutwater", "cutwater_spark"]\n'
    + ignored([*breaking, *cycles])
)
print("\n".join(out), end="")
