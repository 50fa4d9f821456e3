"""Builds gpu_accel._core by CMake: one description of the build for pip and for make.

GA_BUILD_DIR: a configured build folder whose libga is taken. Without it ./build is taken when it is built, or else libga
is built first; with nvcc it has CUDA kernels then, but for GA_CUDA=OFF."""
import os
import shutil
import subprocess
import sysconfig
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def get_ext_filename(self, name):
        return name.replace(".", os.sep) + ".abi3.so"

    def folder(self):
        given = os.environ.get("GA_BUILD_DIR")
        if given:
            return Path(given)
        if (ROOT / "build/libga.a").exists() and (ROOT / "build/CMakeCache.txt").exists():
            return ROOT / "build"
        return Path(self.build_temp).resolve() / "ga"

    def build_extension(self, ext):
        folder, include = self.folder(), sysconfig.get_paths()["include"]
        configure = ["cmake", "-S", ROOT, "-B", folder, f"-DGA_PYTHON_INCLUDE={include}"]
        if not (folder / "CMakeCache.txt").exists():
            configure += ["-DCMAKE_BUILD_TYPE=Release", "-DGA_TESTS=OFF", f"-DGA_CUDA={os.environ.get('GA_CUDA', 'ON')}"] + (["-GNinja"] if shutil.which("ninja") else [])
        subprocess.run(configure, check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count())
        subprocess.run(["cmake", "--build", folder, "--target", "ga_python", "--parallel", jobs], check=True)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "python/gpu_accel/_core.abi3.so", target)
        if strip := shutil.which("strip"):
            subprocess.run([strip, "--strip-unneeded", target], check=True)


class Abi3Wheel(bdist_wheel):
    """One wheel for CPython 3.11 and all that follow."""

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


if sys.version_info < (3, 11):
    sys.exit("gpu_accel needs Python 3.11 or newer")
setup(ext_modules=[Extension("gpu_accel._core", [], py_limited_api=True)], cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Abi3Wheel})
