"""Build what the tests of the chart call: helm, kubeconform and the schemas of Kubernetes' objects.

    python deploy/helm/tools/build.py               (`make helm-tools`)
    python deploy/helm/tools/build.py --apiserver   kube-apiserver and etcd too: a quarter of an hour of one core

Go downloads the modules that go.mod names and checks them against go.sum. The programs are kept in the cache
folder of Cutwater, below a name that changes with these files, so that a clone builds them once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
KUBERNETES = (1, 36, 3)
HELM = "helm.sh/helm/v3"
PROGRAMS = ("helm", "kubeconform")
SERVERS = ("etcd", "kube-apiserver")


def folder() -> Path:
    """Return the folder of programs and schemas; it need not exist."""
    from cutwater.adapters.runtime.cache_folder import cache_dir

    digest = hashlib.sha256()
    for file in ("build.py", "go.sum", "schemas.lock", "schemas.py", "apiserver/go.sum"):
        digest.update((HERE / file).read_bytes())
    return cache_dir() / "helm-tools" / digest.hexdigest()[:12]


def helm_version() -> str:
    """Return the version that go.mod pins, such as v3.22.0."""
    lines = (HERE / "go.mod").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.strip().startswith(f"{HELM} "))


def _compile(into: Path, module: Path, package: str, flags: str = "") -> None:
    if into.exists():
        return
    print(f"building {into.name}", flush=True)
    unfinished = into.with_name(f"{into.name}.unfinished")
    command = ["go", "build", "-mod=readonly", "-trimpath", f"-ldflags=-s -w {flags}", "-o", unfinished, package]
    subprocess.run(command, cwd=module, check=True, env={**os.environ, "GOTOOLCHAIN": "local"})
    unfinished.replace(into)


def main() -> None:
    made = folder()
    made.mkdir(parents=True, exist_ok=True)
    major, minor, patch = KUBERNETES
    known = f"{HELM}/pkg/chartutil.k8sVersion"
    flags = f"-X {HELM}/internal/version.version={helm_version()} -X {known}Major={major} -X {known}Minor={minor}"
    _compile(made / "kubeconform", HERE, "github.com/yannh/kubeconform/cmd/kubeconform")
    _compile(made / "helm", HERE, f"{HELM}/cmd/helm", flags)
    if not (made / "schemas").exists():
        subprocess.run([sys.executable, HERE / "schemas.py", made / "schemas.unfinished"], check=True)
        (made / "schemas.unfinished").replace(made / "schemas")
    if "--apiserver" in sys.argv[1:]:
        _compile(made / "etcd", HERE / "apiserver", "go.etcd.io/etcd/server/v3")
        version = "k8s.io/component-base/version.git"
        flags = f"-X {version}Version=v{major}.{minor}.{patch} -X {version}Major={major} -X {version}Minor={minor}"
        _compile(made / "kube-apiserver", HERE / "apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", flags)
    print(made)


if __name__ == "__main__":
    main()
