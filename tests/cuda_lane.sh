#!/usr/bin/env bash
# The CUDA lane: every test that is marked `needs_cuda`, on a machine with an NVIDIA GPU. It needs no network.
# Usage: bash tests/cuda_lane.sh [PYTHON]    PYTHON has onnxruntime-gpu and the test extra (default: python3)
# Exit status: 0 all passed; 1 a test failed, or none ran; 2 PYTHON or its packages are missing; 3 there is no GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
python=${1:-python3}
limit_s=290

if ! command -v "$python" >/dev/null 2>&1; then
    echo "CUDA lane: there is no interpreter $python"
    exit 2
fi

# Ask the driver itself, which needs no package.
gpus=$("$python" - <<'PYTHON'
import ctypes

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(print(f"the NVIDIA driver is not here: {error}") or 3)
count = ctypes.c_int(0)
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
if status or not count.value:
    raise SystemExit(print(f"the NVIDIA driver names no device (CUDA error {status})") or 3)
print(f"{count.value} GPU(s)")
PYTHON
)
status=$?
if [ "$status" -eq 3 ]; then
    echo "CUDA lane: NO GPU, nothing was tested: $gpus"
    exit 3
elif [ "$status" -ne 0 ]; then
    echo "CUDA lane: $python does not run"
    exit 2
fi

if ! missing=$("$python" -c 'import importlib.util as u, importlib.metadata as m
m.version("onnxruntime-gpu")
names = [name for name in ("onnx", "numpy", "pytest", "msgspec", "filelock") if u.find_spec(name) is None]
assert not names, names' 2>&1); then
    echo "CUDA lane: $python lacks packages: ${missing##*$'\n'}"
    exit 2
fi
# Where the plugin is not installed it is taken from this tree, here and in the processes that the tests start.
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" ORT_DISABLE_TELEMETRY=1
if ! "$python" -c 'import importlib.metadata as m; m.version("pytest-onnxperf")' 2>/dev/null; then
    export PYTEST_PLUGINS=pytest_onnxperf.plugin
fi

echo "CUDA lane: $gpus, $("$python" -c 'import onnxruntime as o; print("onnxruntime-gpu", o.__version__)')"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t files < <(grep -rl --include='test_*.py' 'mark\.needs_cuda\b' tests)
timeout --kill-after=5 "$limit_s" "$python" -m pytest -q -m needs_cuda -p no:cacheprovider --durations=5 \
    --basetemp="$work/tests" --junitxml="$work/junit.xml" "${files[@]}"
status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "CUDA lane: 0 passed, stopped after its limit of $limit_s s"
    exit 1
fi

"$python" - "$work/junit.xml" "$status" <<'PYTHON'
import sys
from xml.etree import ElementTree

path, status = sys.argv[1:]
try:
    suite = next(ElementTree.parse(path).getroot().iter("testsuite"))
except (OSError, ElementTree.ParseError, StopIteration) as error:
    raise SystemExit(print(f"CUDA lane: 0 passed, pytest ended with status {status} and no report: {error}") or 1)
tests, errors, failures, skipped = (int(suite.attrib[name]) for name in ("tests", "errors", "failures", "skipped"))
passed = tests - errors - failures - skipped
seconds = float(suite.attrib["time"])
print(f"CUDA lane: {passed} passed, {failures + errors} failed, {skipped} skipped in {seconds:.0f} s")
raise SystemExit(1 if int(status) or failures or errors or not passed else 0)
PYTHON
