"""A real API server of Kubernetes with its etcd, on this machine, without controllers and nodes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.kubernetes.chart import helm, tool

TOKEN = "a-token-of-the-tests"
START_S = 120


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class ApiServer:
    """The API, asked as a superior or on behalf of another user."""

    def __init__(self, folder: Path, port: int) -> None:
        self._http = httpx.Client(
            base_url=f"https://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            verify=False,  # its certificate is its own
            timeout=30,
            trust_env=False,
        )
        self.kubeconfig = folder / "kubeconfig"
        named = {"server": str(self._http.base_url), "insecure-skip-tls-verify": True}
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "here", "cluster": named}],
                    "users": [{"name": "me", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                    "current-context": "here",
                }
            )
        )

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def create(self, path: str, one: dict[str, Any], *, dry: bool = False) -> httpx.Response:
        """Create an object; unknown fields and fields given twice are refused. `dry`: check it only."""
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry else {})}
        return self._http.post(path, json=one, params=query)

    def objects(self, path: str) -> list[dict[str, Any]]:
        return list(self._http.get(path).raise_for_status().json()["items"])

    def may(self, user: str, verb: str, resource: str, namespace: str) -> bool:
        """Return whether the user has this right, as the server's authorizer decides."""
        asked = {"verb": verb, "resource": resource, "namespace": namespace}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = self.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {**review, "spec": {"user": user, "resourceAttributes": asked}},
        )
        return bool(answer.raise_for_status().json()["status"]["allowed"])

    def helm(self, *words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        return helm(*words, "--kubeconfig", self.kubeconfig, given=given)


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Start etcd and the API server in a folder, and end both."""
    store, peer, port = _free_ports(3)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "accounts.key").write_bytes(private)
    (folder / "tokens.csv").write_text(f'{TOKEN},me,me,"system:masters"\n')
    etcd = [
        *(tool("etcd"), "--data-dir", folder / "etcd", "--unsafe-no-fsync", "--log-level", "error"),
        *(
            "--listen-client-urls",
            f"http://127.0.0.1:{store}",
            "--advertise-client-urls",
            f"http://127.0.0.1:{store}",
        ),
        *(
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
        ),
    ]
    server = [
        *(tool("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{store}", f"--secure-port={port}"),
        *(
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
        ),
        *("--service-cluster-ip-range=10.96.0.0/24", "--authorization-mode=RBAC", "--profiling=false"),
        *("--service-account-issuer=https://here.invalid", "--endpoint-reconciler-type=none"),
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
    ]
    with (folder / "log").open("wb") as log, _running(etcd, log), _running(server, log) as process:
        api = ApiServer(folder, port)
        end = time.monotonic() + START_S
        while not api.is_ready():
            assert process.poll() is None, (folder / "log").read_text()[-2_000:]
            assert time.monotonic() < end, (folder / "log").read_text()[-2_000:]
            time.sleep(0.2)
        yield api


@contextmanager
def _running(words: list[Any], log: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([str(one) for one in words], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
