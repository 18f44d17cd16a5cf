"""What an error of the ``redis`` library means for a key, for a call, and for the configuration."""

from __future__ import annotations

import redis

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError

_RESULTS: tuple[tuple[type[redis.RedisError], Result], ...] = (
    (redis.exceptions.OutOfMemoryError, Result.NO_SPACE),
    (redis.TimeoutError, Result.TIMED_OUT),
    (redis.ConnectionError, Result.UNAVAILABLE),
    (redis.DataError, Result.INVALID),
    (redis.RedisError, Result.IO_ERROR),
)


def result_of(error: redis.RedisError) -> Result:
    """What became of a key whose command failed so."""
    return next(result for kind, result in _RESULTS if isinstance(error, kind))


def failed_call(address: object, error: redis.RedisError) -> BackendError:
    """The error of a call that failed as a whole."""
    return BackendError(f"redis at {address}: {error}", result_of(error))


def is_for_a_person_to_fix(error: redis.RedisError) -> bool:
    """Whether no waiting can help: the server is there, and refuses."""
    if isinstance(error, redis.exceptions.BusyLoadingError | redis.exceptions.MasterDownError):
        return False
    return isinstance(
        error,
        redis.AuthenticationError | redis.ResponseError | redis.InvalidResponse,
    )
