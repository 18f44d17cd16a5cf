"""Handing the results of loads over, in the way a fault rule asks for."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from kvchaos.completion import Completion
from kvchaos.lmcache.results_board import ResultsBoard

T = TypeVar("T")


class Delivery(Generic[T]):
    """Posts results on a board: at once, late, twice, or exchanged with another task's. Thread-safe."""

    def __init__(self, board: ResultsBoard[T]) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._late: dict[int, tuple[threading.Timer, T, Completion]] = {}
        self._partner: tuple[int, T, Completion] | None = None

    @property
    def held(self) -> int:
        """Results that are kept back now."""
        with self._lock:
            return len(self._late) + (self._partner is not None)

    def deliver(self, task_id: int, result: T, completion: Completion) -> None:
        """Has the result handed over."""
        if completion.late_s:
            self._keep_back(task_id, result, completion)
        elif completion.exchanged:
            self._exchange(task_id, result, completion)
        else:
            self._board.post(task_id, result, again=completion.twice)

    def release(self) -> None:
        """Hands over at once what is kept back, each result to its own task."""
        with self._lock:
            late, self._late = self._late, {}
            partner, self._partner = self._partner, None
        for task_id, (timer, result, completion) in late.items():
            timer.cancel()
            self._board.post(task_id, result, again=completion.twice)
        if partner is not None:
            task_id, result, completion = partner
            self._board.post(task_id, result, again=completion.twice)

    def _keep_back(self, task_id: int, result: T, completion: Completion) -> None:
        timer = threading.Timer(completion.late_s, self._is_due, (task_id,))
        timer.daemon = True
        with self._lock:
            self._late[task_id] = (timer, result, completion._replace(late_s=0.0))
        timer.start()

    def _is_due(self, task_id: int) -> None:
        with self._lock:
            kept = self._late.pop(task_id, None)
        if kept is not None:
            _, result, completion = kept
            self.deliver(task_id, result, completion)

    def _exchange(self, task_id: int, result: T, completion: Completion) -> None:
        with self._lock:
            partner, self._partner = self._partner, None
            if partner is None:
                self._partner = (task_id, result, completion)
                return
        other_id, other_result, other_completion = partner
        self._board.post(other_id, result, again=other_completion.twice)
        self._board.post(task_id, other_result, again=completion.twice)
