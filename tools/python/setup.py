"""Builds a wheel of the module, the program and all files that they read.

    pip wheel --no-build-isolation --no-deps --wheel-dir DIR tools/python

It compiles in the folder that tools/trainyard uses too: build/release, or release/ in $TRAINYARD_BUILD.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parents[2]
BUILDS = Path(os.environ.get("TRAINYARD_BUILD") or ROOT / "build").resolve()
(BUILDS / "wheel").mkdir(parents=True, exist_ok=True)
VERSION = re.search(r"project\(trainyard VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


class InstalledFiles(build_ext):
    """Takes the files that `cmake --install` would write: the module into the wheel's package, the others as its data."""

    def run(self):
        build, prefix = BUILDS / "release", BUILDS / "wheel/prefix"
        shutil.rmtree(prefix, ignore_errors=True)
        options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTRAINYARD_PYTHON=ON"]
        subprocess.run(["cmake", "-S", ROOT, "-B", build, *options], check=True)
        targets = ["trainyard", "trainyard_simgrid", "trainyard_python"]
        subprocess.run(["cmake", "--build", build, "--target", *targets], check=True)
        subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--strip"], check=True)
        module = prefix / "lib/python3/dist-packages/trainyard"
        shutil.copytree(module, Path(self.build_lib) / "trainyard", dirs_exist_ok=True)
        shutil.rmtree(prefix / "lib")
        self.distribution.data_files = [
            (str(folder.relative_to(prefix)), [str(folder / file) for file in files])
            for folder, files in ((Path(path), names) for path, _, names in os.walk(prefix))
            if files
        ]


setup(
    version=VERSION,
    packages=[],
    ext_modules=[Extension("trainyard._native", [])],
    cmdclass={"build_ext": InstalledFiles},
    options={"egg_info": {"egg_base": str(BUILDS / "wheel")}, "build": {"build_base": str(BUILDS / "wheel/build")}},
)
