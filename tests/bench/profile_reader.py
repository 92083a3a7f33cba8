"""Measures the profile reader on a made profile of a million events: `python tests/bench/profile_reader.py`.

In one run, as ratios of CPU time (best of interleaved rounds) and as MiB:

- `json.load` of the file and the same counting, against the reader: at least 20;
- the reader against decoding each line with msgspec (a typed struct of the fields that are used) and nothing else: at
  most 2;
- peak memory of a fresh process that reads the file, over one that has only imported the reader: at most 64 MiB.

It exits with 1 if one of them is missed. `json.load` needs about 8 KiB of memory an event: where that is not there, it
reads the first events only, and its time is scaled by the number of events.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from pytest_onnxperf.core.profile_json import read_profile

LEAST_FASTER_THAN_JSON = 20.0
MOST_OF_MSGSPEC_ALONE = 2.0
MOST_EXTRA_MIB = 64.0
JSON_BYTES_AN_EVENT = 8 << 10
NODES_A_RUN = 300
VARIANTS = 8
SHAPE_NODES = 8
IS_SHAPE = frozenset({"Gather"})
BRANCH = 20
"""Index of the `If`, where the profile has one."""


class Args(msgspec.Struct, gc=False):
    """What the reader wants to know of a node's arguments."""

    op_name: str = ""
    provider: str = ""
    input_type_shape: msgspec.Raw = msgspec.Raw()
    output_type_shape: msgspec.Raw = msgspec.Raw()


class Event(msgspec.Struct, gc=False):
    """What the reader wants to know of an event."""

    cat: str
    tid: int
    dur: int
    ts: int
    name: str
    args: Args


def node_line(rng: random.Random, index: int, op_type: str, provider: str) -> bytes:
    """Return a `kernel_time` event as ONNX Runtime 1.28 and later write it, with `%d` for `dur` and `ts`."""
    is_shape = op_type in IS_SHAPE
    shapes = '[{"int64":[4]},{"int64":[]}]' if is_shape else '[{"float":[1,128,768]},{"float":[768]}]'
    workers = ",".join(
        f'"{23464 + worker}": {{"num_run": {rng.randrange(9)}, "core": {worker}}}' for worker in range(1)
    )
    args = [
        '"thread_scheduling_stats" : {"main_thread": {"thread_pool_name": "session-1-intra-op", '
        f'"thread_id": "24336", "block_size": [{rng.randrange(64)}], "core": {rng.randrange(8)}, '
        f'"Distribution": {rng.randrange(9)}, "DistributionEnqueue": {rng.randrange(9)}, "Run": {rng.randrange(99)}, '
        f'"Wait": {rng.randrange(99)}, "WaitRevoke": 0}}, "sub_threads": {{{workers}}}}}',
        f'"op_name" : "{op_type}"',
        f'"provider" : "{provider}"',
        f'"node_index" : "{index}"',
        f'"input_type_shape" : {shapes}',
        f'"output_type_shape" : {shapes.partition("},")[0]}}}]',
        *(f'"{name}" : "{rng.randrange(99_999)}"' for name in SIZES),
    ]
    rng.shuffle(args)
    name = f"/model/layers.{index // 10}/{op_type}_{index}"
    head = f'{{"cat" : "Node","pid" :13375,"tid" :13375,"dur" :%d,"ts" :%d,"ph" : "X","name" :"{name}_kernel_time"'
    return f'{head},"args" : {{{",".join(args)}}}}},\n'.encode()


SIZES = (
    "activation_size",
    "parameter_size",
    "output_size",
    "mem_bytes_in_use",
    "mem_bytes_requested_in_use",
    "mem_in_use_delta",
    "mem_requested_in_use_delta",
    "mem_in_use_peak",
    "mem_arena_held",
    "mem_arena_held_delta",
)
SESSION = b'{"cat" : "Session","pid" :13375,"tid" :13375,"dur" :%d,"ts" :%d,"ph" : "X","name" :"%b","args" : {}},\n'


def made_lines(rng: random.Random, *, subgraph: bool) -> list[list[bytes]]:
    """Return the lines of one run's nodes in several variants: attention, products, shapes, copies, an `If`."""
    layer = ["MatMul", "Add", "Mul", "SkipLayerNormalization", "GroupQueryAttention", "Reshape", "Cast", "Sigmoid"]
    nodes = []
    for index in range(NODES_A_RUN):
        op_type = (
            "Gather" if index < SHAPE_NODES else "MemcpyToHost" if index == SHAPE_NODES else layer[index % len(layer)]
        )
        if subgraph and index == BRANCH:
            op_type = "If"
        on_cpu = op_type in {"Gather", "If"}
        nodes.append((index, op_type, "CPUExecutionProvider" if on_cpu else "CUDAExecutionProvider"))
    return [[node_line(rng, *node) for node in nodes] for _ in range(VARIANTS)]


def write_profile(path: Path, events: int, *, subgraph: bool = False) -> None:
    """Write a profile of `events` events: runs of 300 nodes, each followed by its `Execute` and its `model_run`."""
    rng = random.Random(20)
    variants = made_lines(rng, subgraph=subgraph)
    clock, written, previous = 1000, 0, 0
    with path.open("wb") as file:
        file.write(b"[\n")
        while written < events:
            begin, lines = clock, []
            for index, line in enumerate(rng.choice(variants)):
                duration = 1 + clock % 37
                if subgraph and index == BRANCH:  # its subgraph ran the node before it
                    lines.append(line % (previous + 2, clock - previous - 2))
                else:
                    lines.append(line % (duration, clock))
                    clock, previous = clock + duration + 1, duration
            lines += [
                SESSION % (clock - begin, begin, b"SequentialExecutor::Execute"),
                SESSION % (clock - begin + 2, begin, b"model_run"),
            ]
            clock += 10
            lines = lines[: events - written]
            written += len(lines)
            file.write(b"".join(lines))
        file.seek(-2, os.SEEK_CUR)
        file.write(b"\n]\n")


def count_with_json(path: Path) -> Counter[tuple[str, str, str]]:
    """Decode the whole file with the standard library and count the executions of each node, and their time."""
    with path.open(encoding="utf-8") as file:
        events = json.load(file)
    executions: Counter[tuple[str, str, str]] = Counter()
    duration_us: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            args = event["args"]
            key = (event["name"].removesuffix("_kernel_time"), args["op_name"], args["provider"])
            executions[key] += 1
            duration_us[key] += event["dur"]
    return executions


def decode_with_msgspec(path: Path) -> None:
    """Decode each line and do nothing with it."""
    decode = msgspec.json.Decoder(Event).decode
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"{"):
                decode(line.rstrip(b",\n"))


def cpu_time_s(function: Callable[[Path], object], path: Path) -> float:
    """Return the CPU time of one call, what it returned thrown away outside the measured time."""
    gc.collect()
    begin = time.process_time()
    result = function(path)
    spent = time.process_time() - begin
    del result
    return spent


def peak_mib(*arguments: str) -> float:
    """Return the peak memory of a fresh process that imports the reader, and reads the file if one is given."""
    code = (
        "import sys\nfrom pytest_onnxperf.core.profile_json import read_profile\n"
        "profile = [read_profile(path) for path in sys.argv[1:]]\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM:')][0])"
    )
    command = [sys.executable, "-c", code, *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024


def free_bytes() -> int:
    """Return the memory that is free for use."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Write, measure, print; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="Events in the profile [1000000]")
    parser.add_argument("--rounds", type=int, default=3, help="Interleaved rounds, of which the best counts [3]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, part, nested = (Path(folder, f"{name}.json") for name in ("profile", "part", "nested"))
        write_profile(path, options.events)
        part_events = min(options.events, free_bytes() // 2 // JSON_BYTES_AN_EVENT)
        write_profile(part, part_events)
        print(f"profile of {options.events:,} events, {path.stat().st_size / 1e6:,.0f} MB")
        with_json, with_msgspec, with_reader = [], [], []
        for number in range(options.rounds):
            with_reader.append(cpu_time_s(read_profile, path))
            with_msgspec.append(cpu_time_s(decode_with_msgspec, path))
            if number < 2:
                with_json.append(cpu_time_s(count_with_json, part) * options.events / part_events)
            with_reader.append(cpu_time_s(read_profile, path))
        extra = peak_mib(str(path)) - peak_mib()
        write_profile(nested, max(1, options.events // 4), subgraph=True)
        of_nested = min(cpu_time_s(read_profile, nested) for _ in range(options.rounds))
        of_nested /= min(cpu_time_s(decode_with_msgspec, nested) for _ in range(options.rounds))
    reader, faster, against = min(with_reader), min(with_json) / min(with_reader), min(with_reader) / min(with_msgspec)
    scaled = "" if part_events == options.events else f" (of {part_events:,} events, scaled)"
    print(f"reader               {reader:8.2f} s of CPU time, {reader / options.events * 1e6:.2f} us an event")
    print(f"json.load + counting {min(with_json):8.2f} s{scaled}")
    print(f"msgspec, each line   {min(with_msgspec):8.2f} s")
    verdicts = [
        (
            f"json.load / reader    {faster:6.1f}  (at least {LEAST_FASTER_THAN_JSON:g})",
            faster >= LEAST_FASTER_THAN_JSON,
        ),
        (
            f"reader / msgspec      {against:6.2f}  (at most {MOST_OF_MSGSPEC_ALONE:g})",
            against <= MOST_OF_MSGSPEC_ALONE,
        ),
        (f"extra peak memory MiB {extra:6.1f}  (at most {MOST_EXTRA_MIB:g})", extra <= MOST_EXTRA_MIB),
    ]
    print(
        f"reader / msgspec      {of_nested:6.2f}  with a subgraph in each run, where names are not trusted; no target"
    )
    for text, is_held in verdicts:
        print(f"{text}  {'held' if is_held else 'MISSED'}")
    return 0 if all(is_held for _, is_held in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
