"""What is installed: wheel and sdist carry the kernels, the tables and the sample; the public names are there."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import gpusim
from gpusim.backends.cuda_launch import kernel_directory

ROOT = Path(gpusim.__file__).resolve().parents[1]
KERNELS = sorted(path.name for path in (ROOT / "kernels").glob("*.cu*"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not a checkout")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_the_wheel_is_complete(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert KERNELS
    for name in (
        *(f"kernels/{k}" for k in KERNELS),
        "unicode/tables.npz",
        "data/sample.jsonl",
        "py.typed",
        "cli/commands.py",
        "report/page.html.j2",
        "report/page.css",
        "report/page.js",
    ):
        assert f"gpusim/{name}" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gpusim"}


def test_the_sdist_is_complete(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for name in (
        *(f"kernels/{k}" for k in KERNELS),
        "README.md",
        "LICENSE",
        "tests/golden.json",
        "gpusim/unicode/tables.npz",
    ):
        assert name in names


def test_the_kernels_are_found() -> None:
    assert {path.name for path in kernel_directory().iterdir()} >= set(KERNELS)


def test_every_public_name_is_there() -> None:
    for name in gpusim.__all__:
        assert getattr(gpusim, name) is not None
    assert set(gpusim.__all__) <= set(dir(gpusim))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gpusim.nonsense  # noqa: B018
