"""The calls of the Blend service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from queue import SimpleQueue

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from kvchaos import __version__
from kvchaos.v1 import blend_pb2 as pb
from kvchaos.v1.blend_pb2_grpc import BlendServicer
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.errors import BlendError, Cancelled, TooManyRequests
from kvchaos_blend.metrics import BlendMetrics
from kvchaos_blend.plan import Policy, plan_for_missing
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.progress import Event
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import RecoveryReport
from kvchaos_blend.rpc.boundary import as_status
from kvchaos_blend.rpc.messages import (
    event_message,
    plan_message,
    policy_message,
    read_policy,
    read_prompt,
    report_message,
    store_message,
)
from kvchaos_blend.worker import Worker


@dataclass(frozen=True, slots=True)
class StoreState:
    """The connection to the sidecar."""

    connected: bool
    detail: str
    """Why it is not connected, or how it is."""


class BlendService(BlendServicer):
    """Runs recoveries on threads of its own, so that a caller who leaves can end them."""

    def __init__(
        self,
        worker: Worker,
        metrics: BlendMetrics,
        default_policy: Policy,
        store_state: Callable[[], StoreState],
        started_at: datetime,
        max_running: int,
    ) -> None:
        self._worker = worker
        self._metrics = metrics
        self._default_policy = default_policy
        self._store_state = store_state
        self._started_at = started_at
        self._max_running = max_running
        self._running = 0
        self._changed = threading.Condition()
        self._threads = ThreadPoolExecutor(max_running, thread_name_prefix="recovery")
        metrics.read_state_from(
            running=lambda: self._running,
            free_blocks=lambda: worker.pool.free_blocks,
            total_blocks=worker.pool.total_blocks,
            connected=lambda: store_state().connected,
        )

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Waits for all work to end; False when some is still going on."""
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, timeout_s)

    def Store(self, request: pb.StoreRequest, context: grpc.ServicerContext) -> pb.StoreResponse:
        """See blend.proto."""
        with as_status(context), self._turn(), cancelled_with(context) as cancel:
            token_ids = read_prompt(request.prompt, self._worker.model)
            report = store_prompt(self._worker, token_ids, cancel=cancel)
            self._metrics.stored(report)
            return store_message(report)

    def Plan(self, request: pb.PlanRequest, context: grpc.ServicerContext) -> pb.PlanResponse:
        """See blend.proto."""
        with as_status(context):
            policy = read_policy(request.policy, self._default_policy)
            chunk_tokens = self._worker.key_space.chunk_tokens
            plan = plan_for_missing(request.prompt_tokens, chunk_tokens, request.missing_chunks, policy)
            return pb.PlanResponse(plan=plan_message(plan))

    def Recover(self, request: pb.RecoverRequest, context: grpc.ServicerContext) -> Iterator[pb.RecoverEvent]:
        """See blend.proto."""
        with as_status(context), self._turn(), cancelled_with(context) as cancel:
            wanted = RecoverRequest(
                token_ids=read_prompt(request.prompt, self._worker.model),
                policy=read_policy(request.policy, self._default_policy),
                new_tokens=request.new_tokens or 1,
                heal=request.heal,
                verify=request.verify,
            )
            yield from self._stream(wanted, cancel)

    def Status(self, request: pb.BlendStatusRequest, context: grpc.ServicerContext) -> pb.BlendStatusResponse:
        """See blend.proto."""
        worker, store = self._worker, self._store_state()
        started_at = Timestamp()
        started_at.FromDatetime(self._started_at)
        return pb.BlendStatusResponse(
            worker_version=__version__,
            started_at=started_at,
            model=worker.model.name,
            architecture=worker.model.traits.architecture,
            geometry=worker.pool.geometry.describe(),
            device=str(worker.model.device),
            attention=worker.model.attention.name,
            attention_reason=worker.attention_reason,
            max_positions=worker.model.max_positions,
            key_model_name=worker.key_space.model_name,
            chunk_tokens=worker.key_space.chunk_tokens,
            ranks=worker.key_space.ranks,
            default_policy=policy_message(self._default_policy),
            pool_blocks=worker.pool.total_blocks,
            pool_free_blocks=worker.pool.free_blocks,
            block_tokens=worker.pool.block_tokens,
            running=self._running,
            store_connected=store.connected,
            store_detail=store.detail,
        )

    def _stream(self, request: RecoverRequest, cancel: CancelToken) -> Iterator[pb.RecoverEvent]:
        """Events as they happen, then the report. Whoever stops listening ends the recovery."""
        events: SimpleQueue[Event | None] = SimpleQueue()
        recovery = self._threads.submit(self._recover, request, events.put, cancel)
        recovery.add_done_callback(lambda _: events.put(None))
        try:
            while (event := events.get()) is not None:
                yield event_message(event)
        finally:
            cancel.cancel("the caller stopped listening")
            wait([recovery])
        yield pb.RecoverEvent(report=report_message(recovery.result()))

    def _recover(
        self, request: RecoverRequest, on_event: Callable[[Event], None], cancel: CancelToken
    ) -> RecoveryReport:
        try:
            report = recover(self._worker, request, on_event, cancel)
        except Exception as error:
            self._metrics.ended_without_report(request.policy, _ending(error))
            raise
        self._metrics.recovered(report)
        return report

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._changed:
            if self._running >= self._max_running:
                raise TooManyRequests(f"{self._running} requests are running, the limit; try again later")
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()


@contextmanager
def cancelled_with(context: grpc.ServicerContext) -> Iterator[CancelToken]:
    """A token that is set when the call ends early: cancelled, out of time, or its connection lost."""
    cancel = CancelToken()

    def hung_up() -> None:
        cancel.cancel("the caller is gone, or its deadline has passed")

    if not context.add_callback(hung_up):
        hung_up()
    yield cancel


def _ending(error: Exception) -> str:
    if isinstance(error, Cancelled):
        return "cancelled"
    return "refused" if isinstance(error, BlendError) else "failed"
