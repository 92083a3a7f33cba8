"""Sorts events into what a profile is made of: nodes and runs by thread, sums by name, what could not be read."""

import re
from collections import Counter
from collections.abc import Sequence
from operator import contains
from typing import Protocol, TypeAlias

from pytest_onnxperf.core.lane import EXECUTE, FIRST_NODE, OTHER, RUN, Lane
from pytest_onnxperf.core.ops import CONTROL_FLOW_OPS
from pytest_onnxperf.core.profile import NodeKey, UnreadLine
from pytest_onnxperf.core.profile_wire import Event, Head, NoEventError, event_of_line, is_integer_only_small

KERNEL_TIME = "_kernel_time"
CATEGORIES = frozenset({"Session", "Node", "Kernel", "Api"})
_SESSION_KINDS = {"model_run": RUN, "SequentialExecutor::Execute": EXECUTE, "ParallelExecutor::Execute": EXECUTE}
_DEVICE, _UNKNOWN = -1, -2
_UNREAD_KEPT = 5
_TEXT_KEPT = 80
_TRUNCATED = "profile_truncated"
_SHAPES = re.compile(rb'"(?:in|out)put_type_shape" : (?:\[\]|\[\{.*?\]\}\])')


_Expected: TypeAlias = tuple[bytes, bytes, tuple[bytes, ...]]
"""What stands in the line of a node: operator, provider and, of one with small integer tensors only, the shapes."""


class Sink(Protocol):
    """What the reader of a file hands its events to."""

    categories: Counter[str]
    """Events by category."""
    unread: list[UnreadLine]
    unread_lines: int
    repaired_lines: int

    @property
    def keeps_unread(self) -> bool:
        """True: the next line that could not be read is kept, and not counted alone."""

    def add_unread(self, line: int, reason: str, text: bytes) -> None:
        """Count a line that could not be read."""

    def add_known(self, heads: Sequence[Head], text: bytes, ends: Sequence[int]) -> bool:
        """Add events by their heads alone; False: that is not safe, and nothing is added."""

    def add_batch(self, heads: Sequence[Head], lines: Sequence[bytes], first_line: int) -> None:
        """Add events of which the head is decoded."""

    def add(self, event: Event) -> None:
        """Add an event with its arguments."""


class _Lanes(dict[int, Lane]):
    def __missing__(self, thread_id: int) -> Lane:
        lane = self[thread_id] = Lane()
        return lane


class Events:
    """Collects the events of one file."""

    def __init__(self) -> None:
        self.lanes = _Lanes()
        self.keys = [NodeKey("", "", "")] * FIRST_NODE
        """By kind of event; those before `FIRST_NODE` are no nodes."""
        self.is_small = [False] * FIRST_NODE
        """By node: only integer tensors of at most 100 elements were seen, and at least one."""
        self.categories: Counter[str] = Counter()
        self.device: dict[str, dict[str, list[int]]] = {"Api": {}, "Kernel": {}}
        """Category -> name -> number of events and their time in microseconds."""
        self.unread: list[UnreadLine] = []
        self.unread_lines = 0
        self.repaired_lines = 0
        self.is_marked_truncated = False
        self.dropped_events: int | None = None
        self._nodes: dict[NodeKey, int] = {}
        self._watched: set[int] = set()
        """Nodes that were seen with small integer tensors only."""
        self._has_control_flow = False
        self._runs = 0
        self._executes = 0
        self._kinds: dict[str, int] = {}
        """Name of an event, as it stands in the file -> its kind."""
        self._expected: dict[str, _Expected] = {}

    @property
    def keeps_unread(self) -> bool:
        """True: the next line that could not be read is kept, and not counted alone."""
        return len(self.unread) < _UNREAD_KEPT

    def add_unread(self, line: int, reason: str, text: bytes) -> None:
        """Count a line that could not be read."""
        self.unread_lines += 1
        if self.keeps_unread:
            shown = text[:_TEXT_KEPT].decode("utf-8", "backslashreplace")
            self.unread.append(UnreadLine(line, reason, shown))

    def add_known(self, heads: Sequence[Head], text: bytes, ends: Sequence[int]) -> bool:
        """Add events by their heads alone; False: that is not safe, and nothing is added.

        Args:
            heads: What stands before the arguments in each line.
            text: The lines.
            ends: Where in the text each head ends.

        The same nodes come again and again, and decoding their arguments would be most of the work. The runtime rejects
        a graph in which two nodes have one name, so that a name tells operator and execution provider, once a run was
        seen. Only a subgraph can have the name again: where there are subgraphs, lines are searched (`add_batch`).
        A name that several nodes of a run have (in 2019 all that have none) is never known. The shapes may change from
        run to run: they are looked at as long as a node was seen with small integer tensors only.
        """
        if self._may_have_subgraphs():
            return False
        kind_of = self._kinds.get
        kinds = [kind_of(head.name, _UNKNOWN) for head in heads]
        if _UNKNOWN in kinds:
            return False
        for index in self._watched_in(kinds):
            begin, end = ends[index], ends[index + 1] if index + 1 < len(ends) else len(text)
            for shapes in self._expected[heads[index].name][2]:
                if text.find(shapes, begin, end) < 0:
                    return False
        self._add_columns(heads, kinds)
        return True

    def _watched_in(self, kinds: Sequence[int]) -> list[int]:
        """Return the places of the nodes whose shapes have to be looked at."""
        watched = self._watched
        return [] if watched.isdisjoint(kinds) else [index for index, kind in enumerate(kinds) if kind in watched]

    def _may_have_subgraphs(self) -> bool:
        """False: several runs are complete, no operator with a subgraph was among their nodes, and no nested graph."""
        runs, threads = self._runs, len(self.lanes)
        return self._has_control_flow or runs <= threads or self._executes > runs + threads

    def add_batch(self, heads: Sequence[Head], lines: Sequence[bytes], first_line: int) -> None:
        """Add events of which the head is decoded: `lines` are their lines, the first with number `first_line`.

        A line is searched for what stood in the arguments when its name came before, and decoded only where it is not
        found: the operator, the provider and, while only small integer tensors were seen, the shapes.
        """
        names = [head.name for head in heads]
        kinds = [self._kinds.get(name, _UNKNOWN) for name in names]
        if _UNKNOWN not in kinds:
            expected = [self._expected[name] for name in names]
            if (
                all(map(contains, lines, [texts[0] for texts in expected]))
                and all(map(contains, lines, [texts[1] for texts in expected]))
                and all(text in lines[index] for index in self._watched_in(kinds) for text in expected[index][2])
            ):
                self._add_columns(heads, kinds)
                return
        for number, (head, line) in enumerate(zip(heads, lines, strict=True), first_line):
            self._learn(head, line, number)

    def _add_columns(self, heads: Sequence[Head], kinds: list[int]) -> None:
        if min(kinds) >= FIRST_NODE:
            self.categories["Node"] += len(heads)
        else:
            self.categories.update([head.cat for head in heads])
        thread_ids = {head.tid for head in heads}
        if len(thread_ids) == 1 and _DEVICE not in kinds:
            lane = self.lanes[thread_ids.pop()]
            lane.starts.fromlist([head.ts for head in heads])
            lane.durations.fromlist([head.dur for head in heads])
            lane.kinds.fromlist(kinds)
            self._runs += kinds.count(RUN)
            self._executes += kinds.count(EXECUTE)
        else:
            for head, kind in zip(heads, kinds, strict=True):
                self._add_head(head, kind)

    def _add_head(self, head: Head, kind: int) -> None:
        if kind != _DEVICE:
            add_start, add_duration, add_kind = self.lanes[head.tid].append
            add_start(head.ts)
            add_duration(head.dur)
            add_kind(kind)
            self._runs += kind == RUN
            self._executes += kind == EXECUTE
        elif head.cat in self.device:
            total = self.device[head.cat].setdefault(head.name, [0, 0])
            total[0] += 1
            total[1] += head.dur

    def _learn(self, head: Head, line: bytes, number: int) -> None:
        """Decode a line whole and add its event, and remember what to look for when its name comes again."""
        try:
            event, is_repaired = event_of_line(line.rstrip(b", \t\r"))
        except NoEventError as error:
            self.add_unread(number, str(error), line)
            return
        self.repaired_lines += is_repaired
        self.add(event)
        if head.name == _TRUNCATED:
            return
        kind = self._kind_of(event)
        expected: _Expected = (b"", b"", ())
        if kind >= FIRST_NODE:
            key = self.keys[kind]
            expected = (
                b'"op_name" : "%b"' % key.op_type.encode("utf-8", "surrogatepass"),
                b'"provider" : "%b"' % key.execution_provider.encode("utf-8", "surrogatepass"),
                tuple(_SHAPES.findall(line)) if self.is_small[kind] else (),
            )
            (self._watched.add if self.is_small[kind] else self._watched.discard)(kind)
        is_ambiguous = self._kinds.setdefault(head.name, kind) != kind
        if is_ambiguous:
            self._kinds[head.name] = _UNKNOWN  # for good: the name says nothing
        self._expected[head.name] = expected

    def add(self, event: Event) -> None:
        """Add an event with its arguments."""
        self.categories[event.cat] += 1
        if event.name == _TRUNCATED:
            self.is_marked_truncated = True
            dropped = event.args.dropped_event_count
            self.dropped_events = int(dropped) if re.fullmatch(r"[0-9]{1,18}", dropped) else None
        self._add_head(event, self._kind_of(event))

    def _kind_of(self, event: Event) -> int:
        if event.cat == "Node":
            return self._node_of(event) if event.name.endswith(KERNEL_TIME) else OTHER
        if event.cat == "Session":
            return _SESSION_KINDS.get(event.name, OTHER)
        return _DEVICE

    def _node_of(self, event: Event) -> int:
        args = event.args
        key = NodeKey(event.name.removesuffix(KERNEL_TIME), args.op_name, args.provider)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = len(self.keys)
            self.keys.append(key)
            self.is_small.append(True)
            self._has_control_flow |= key.op_type in CONTROL_FLOW_OPS
        if self.is_small[node]:
            self.is_small[node] = is_integer_only_small(args)
        return node
