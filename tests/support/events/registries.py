"""Schema registries for tests: a real one (Apicurio's, from the jar repository) and a stand-in that can fail.

The stand-in speaks the part of Confluent's API that Cutwater uses. One suite (test_registry.py) runs against both.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from support.serving import serving

APICURIO = ("io.apicurio", "apicurio-registry-app", "2.6.13.Final")
APICURIO_SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """A real registry in memory, as a process; yields the URL of its Confluent API."""
    home = _apicurio_home()
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    settings = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Xmx400m"]
    folder.mkdir(parents=True, exist_ok=True)
    (jar,) = home.glob("*-runner.jar")
    command, log = [find_java(), *settings, "-jar", jar], folder / "apicurio.log"
    with serving(
        "the registry", command, lambda: httpx.get(f"{url}/subjects", timeout=5).status_code == 200, log, home
    ):
        yield url


def _apicurio_home() -> Path:
    """The registry's folder, downloaded once and checked."""
    from jgo.maven import MavenContext

    home = cache_dir() / f"apicurio-{APICURIO_SHA256[:16]}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as temp:
            group, artifact, version = APICURIO
            context = MavenContext(repo_cache=Path(temp) / "downloads", timeout=60)
            archive = context.project(group, artifact).at_version(version).artifact("all", "tar.gz").resolve()
            with archive.open("rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == APICURIO_SHA256
            with tarfile.open(archive) as packed:
                packed.extractall(Path(temp) / "home", filter="data")
            (Path(temp) / "home").rename(home)
    return home


class StandIn:
    """A registry of our own, which fails on demand. `requests` counts what arrived."""

    def __init__(self) -> None:
        self._subjects: dict[str, list[dict[str, Any]]] = {}
        self._ids: dict[int, dict[str, Any]] = {}
        """Schemas by number, as they were sent; one schema may have several, by imports."""
        self.modes: dict[str, str] = {}
        """By subject; "" is the registry's own."""
        self.knows_modes = True
        """False: as Apicurio's, which knows none."""
        self.closed_to_writes = 0
        """The status that every write is answered with, and who asks for a mode."""
        self._lock = threading.Lock()
        self.faults: list[int] = []
        """Status codes to answer with, one per request, before any real answer."""
        self.delay_s = 0.0
        self.login: tuple[str, str] | None = None
        self.requests = 0
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[StandIn]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)

    def answer(self, method: str, path: str, body: Any, login: str | None) -> tuple[int, Any]:
        with self._lock:
            self.requests += 1
            time.sleep(self.delay_s)
            if self.faults:
                return self.faults.pop(0), {"error_code": 50001, "message": "on demand"}
            if self.login and login != "Basic " + base64.b64encode(":".join(self.login).encode()).decode():
                return 401, {"error_code": 401, "message": "Unauthorized"}
            reads = method == "GET" and not path.startswith("/mode")
            looks_up = method == "POST" and not path.endswith("/versions")
            if self.closed_to_writes and not reads and not looks_up:
                return self.closed_to_writes, {"error_code": self.closed_to_writes, "message": "read only"}
            return self._route(method, path, body)

    def _route(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        if by_number := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._by_number(int(by_number[1]))
        if method == "POST" and (asked := re.fullmatch(r"/subjects/([^/]+)", path)):
            return self._look_up(asked[1], _text(body))
        if found := re.fullmatch(r"/mode(?:/([^/]+))?", path):
            return self._mode(method, found[1] or "", query, body)
        return self._versions(method, path, query, body)

    def _mode(self, method: str, subject: str, query: str, body: Any) -> tuple[int, Any]:
        if not self.knows_modes:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if method == "GET" and not subject:
            return 200, {"mode": self.modes.get("", "READWRITE")}
        if method == "PUT":
            if body["mode"] == "IMPORT" and self._subjects.get(subject) and "force=true" not in query:
                return 422, {"error_code": 42205, "message": "Cannot import since found existing subjects"}
            self.modes[subject] = body["mode"]
            return 200, body
        if subject not in self.modes:
            message = f"Subject '{subject}' does not have subject-level mode configured"
            return 404, {"error_code": 40409, "message": message}
        return 200, {"mode": self.modes.pop(subject) if method == "DELETE" else self.modes[subject]}

    def _versions(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        found = re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+|latest))?", path)
        if found is None:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        subject, number = found[1], found[2]
        if method == "POST":
            return self._register(subject, body)
        kept = [one for one in self._subjects.get(subject, []) if "deleted=true" in query or not one["deleted"]]
        if not kept:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if number is None:
            return 200, [one["version"] for one in kept]
        wanted = kept[-1]["version"] if number == "latest" else int(number)
        named = [one for one in kept if one["version"] == wanted]
        return self._one(method, named[0]) if named else (404, {"error_code": 40402, "message": "no such version"})

    def _one(self, method: str, version: dict[str, Any]) -> tuple[int, Any]:
        if method == "DELETE":
            version["deleted"] = True
            return 200, version["version"]
        return 200, {name: value for name, value in version.items() if name != "deleted"}

    def _by_number(self, wanted: int) -> tuple[int, Any]:
        found = self._ids.get(wanted)
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def _look_up(self, subject: str, text: str) -> tuple[int, Any]:
        kept = [one for one in self._subjects.get(subject, []) if one["schema"] == text and not one["deleted"]]
        return (200, kept[0]) if kept else (404, {"error_code": 40403, "message": "Schema not found"})

    def _register(self, subject: str, body: Any) -> tuple[int, Any]:
        mode = self.modes.get(subject) or self.modes.get("", "READWRITE")
        if (mode != "IMPORT" and "id" in body) or (mode != "READWRITE" and "id" not in body):
            message = f"Subject {subject} is not in {'import' if 'id' in body else 'read-write'} mode"
            return 422, {"error_code": 42205, "message": message}
        schema = {"schema": _text(body), "references": body.get("references", [])}
        if "schemaType" in body:
            schema["schemaType"] = body["schemaType"]
        versions = self._subjects.setdefault(subject, [])
        if "id" in body:
            return self._import(subject, schema, int(body["id"]), int(body.get("version") or len(versions) + 1))
        known = {one["schema"]: one for one in versions}
        if (stands := known.get(schema["schema"])) is not None:
            return 200, {"id": stands["id"]}
        number = next((at for at, one in self._ids.items() if one == schema), max(self._ids, default=0) + 1)
        version = max((one["version"] for one in versions), default=0) + 1
        return self._import(subject, schema, number, version)

    def _import(self, subject: str, schema: dict[str, Any], number: int, version: int) -> tuple[int, Any]:
        """A number is never overwritten; a version is, as in Confluent's."""
        if self._ids.setdefault(number, schema) != schema:
            message = f"Overwrite new schema with id {number} is not permitted."
            return 422, {"error_code": 42205, "message": message}
        others = [one for one in self._subjects[subject] if one["version"] != version]
        made = {"subject": subject, "version": version, "id": number, **schema, "deleted": False}
        self._subjects[subject] = sorted([*others, made], key=lambda one: int(one["version"]))
        return 200, {"id": number}


def _text(body: Any) -> str:
    """A .proto is a text, the other kinds of schemas are JSON."""
    text = str(body["schema"])
    return text if body.get("schemaType") == "PROTOBUF" else json.dumps(json.loads(text))


def _handler(registry: StandIn) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, value = registry.answer(self.command, self.path, body, self.headers.get("Authorization"))
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, *_arguments: Any) -> None:
            """Tests read no access log."""

    return Handler
