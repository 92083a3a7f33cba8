"""How it is measured and judged, in a paragraph each: what README has no room for, for `onnxperf reference`.

The methods themselves, with their sources, are in the docstrings of the modules that hold them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Note(NamedTuple):
    """One paragraph."""

    subject: str
    text: str


NOTES: Final = (
    Note(
        "made inputs",
        "`shapes=` makes inputs that are seeded, the same on every machine, and in range for the type; "
        'integers are 1 unless `ranges={"input_ids": (0, 30000)}` says otherwise. Every symbolic dimension '
        "must be given.",
    ),
    Note(
        "attention kernels",
        "What shows the kernel of an attention node: CUDA's attention debug output and the log of ai.onnx "
        "Attention, kernel events of a profiling build, WebGPU's programs, or a MatMul, Softmax, MatMul that "
        "fit together. Without such evidence, as on the CPU, the budget cannot be told, and fails with what "
        'would give it. `attention_backend="flash"` lets CUDA choose one kernel alone; '
        '`environment={"ORT_DISABLE_FLASH_ATTENTION": "1"}` sets any variable of the measuring processes. '
        "What was set is recorded, and shown where the baseline had it otherwise.",
    ),
    Note(
        "explanations",
        "A test that fails starts one more process, which creates the session with a verbose log and its "
        "optimised graph on disk, and removes both. `--onnxperf-explain` does so for every test and adds a "
        "roofline: FLOP, least bytes, and what bounds each operator, by the datasheet of the GPU, or with "
        "`onnxperf explain --measure-ceilings` by what a large product and a large copy attain. Advice comes "
        "from one table, `core/advice.py`: cause, detection, advice, source.",
    ),
    Note(
        "baselines",
        "Facts are compared by equality, also with another device of the same EP; times only with the same "
        "device. Op shares are recorded to explain, and never judged. What an update would not change beyond "
        "the recorded interval stays as it was, and the first values stay as the anchor.",
    ),
    Note(
        "time and its noise",
        "The error of a time lies between processes and moments, not between rounds: one process against "
        "another differs by 3 to 5 % on a shared machine, whatever the number of rounds. So an update times a "
        "test in several processes, and each round beside a reference workload: a little work, products in the "
        "cache, small calls and a walk through memory; in numpy, and for the EPs of CUDA on the device, with "
        "the cuBLAS and the copies that the runtime has loaded (on Linux). What is stored and judged is the "
        "median of the ratios of a moment, one value per process, with the kind, or from 8 processes on the mix of "
        "two, that explains the stored processes best: `regressed` is beyond the 99 % prediction interval of the "
        "stored processes and the tolerance, after two more processes have looked; "
        "an entry says which slowdown it can see. Rounds beside a reference end before `--onnxperf-max-time` "
        "where the verdict is certain, for a generator that of TTFT and that of decode. Where rounds have no "
        "reference (in the test's own process, in an older baseline, or where the summary says why the device "
        "has none), raw times are judged the same way, with what a machine drifts between two "
        "days on top: honest, and half blind. A baseline of one or two processes tells no noise: it is "
        "`noisy`, never `ok`.",
    ),
    Note(
        "GPU and machine",
        "Where NVML answers (`nvidia-ml-py`, in the `cuda` extras), the GPU is read twice a second from pytest's "
        "process: power limit, clocks, temperature, use, and who else is on it; on Linux also the CPU's "
        "governor, cgroup limit, stolen time and thermal throttling. A GPU that slows itself down or that "
        "others use, and a CPU short of time, make a measurement `disturbed`; an update leaves its times out "
        "unless `--onnxperf-update-force` is given. Limits and governor are kept beside the versions.",
    ),
    Note(
        "A/B in one run",
        "`onnx_compare` and `genai_compare` open both arms in one process and time them in turn, in random "
        "order within each pair. A change is confirmed by two more processes, and the reference against "
        "itself, once per device, says whether the machine can be judged at all. Outputs are compared by name "
        "with `rtol` and `atol`: a faster wrong answer is no speed-up. Of generators the logits are the "
        'outputs, and `require(..., metric="ttft")` or `"decode_throughput"` names one metric.',
    ),
    Note(
        "--onnxperf-against",
        "Two processes are timed in turn, in random order; a change is confirmed by two more pairs of "
        "processes, and fails beyond 2 % (`max_regression`, or a tolerance that is given, instead). Facts, "
        "memory and size compare between the arms too. The other interpreter needs numpy and onnxruntime "
        "alone, and Python 3.9 or later. In a shallow clone fetch the revision first.",
    ),
    Note(
        "matrix",
        "`onnx_matrix` knows the dimensions `model`, `dtype`, `pipeline`, `ep`, `prompt_tokens`, `batch_size`, "
        "`new_tokens`, `cache` (static, dynamic) or `share_buffer`; any other is the test's own. The table of a "
        "model has the best cell of each metric on top, how many times better than its reference each cell is, and "
        "which builds are mixed. `onnxperf matrix RESULTS... [--markdown|--html|--csv]` makes the same of files of "
        "`--onnxperf-json`, those of shards together.",
    ),
    Note(
        "pytest-benchmark",
        "`benchmark(session.run, feeds)` times the bare run of a warm session with the device claimed; the facts, "
        'from a profile process as ever, go to `extra_info["onnxperf"]`. Where it times nothing '
        "(`--benchmark-disable`, pytest-xdist) or is pytest-codspeed's, a budget on time cannot be told. A "
        "baseline gates the facts; such times are those of one process without a reference, `noisy`, so what a "
        "baseline should gate is for `measure()`.",
    ),
    Note(
        "many workers",
        "Two measurements never hold one device at once, in whatever worker or pytest session of a user: each waits "
        "for the lock of its device, and `spent` in the results says when which device was held. Under "
        "`pytest -n`, where several GPUs of one model are visible, each worker's `CUDA_VISIBLE_DEVICES` begins with "
        "a GPU of its own. Baselines, results and reports are written once, by the controller.",
    ),
    Note(
        "results",
        "The file of `--onnxperf-json` is valid after a kill at any moment, and beside it lies a journal then, which "
        "`export` and `merge` read too. `merge` keeps the results of several devices and versions, and refuses "
        "two of one test in the same environment. Of the exports, `ops` of pytest-benchmark is 1 / median; "
        "github-action-benchmark's two custom forms leave tails out; OpenMetrics is for GitLab's metrics report; "
        "csv has a row for each metric, and `--no-header` appends to one file, in which the rows of one test and "
        "metric are a series for change-point tools.",
    ),
    Note(
        "GitHub",
        "Where `GITHUB_STEP_SUMMARY` is set, its file gets the page of `--onnxperf-markdown`, within what is "
        "left of its 1 MiB. Where `GITHUB_ACTIONS` is `true`, each test that fails by its performance is an "
        "error at its line: the 10 worst, as GitHub shows no more, and a notice that counts the rest.",
    ),
)
