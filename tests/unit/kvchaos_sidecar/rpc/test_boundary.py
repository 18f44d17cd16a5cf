import inspect

import grpc
import pytest

from kvchaos.errors import InvalidKeyError
from kvchaos_sidecar import errors
from kvchaos_sidecar.backends import contract
from kvchaos_sidecar.rpc.boundary import STATUS_CODES, status_of

NOT_FROM_CALLS = {errors.DaemonError, errors.ListenError, errors.NoConfigFile}
"""The base, what the daemon does not start with, and what Control maps itself."""


def test_every_refusal_has_a_status() -> None:
    declared = {
        kind
        for module in (errors, contract)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == module.__name__
    }
    assert declared - NOT_FROM_CALLS == STATUS_CODES.keys() - {InvalidKeyError}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidKeyError("k"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.UnknownSession("s"), grpc.StatusCode.NOT_FOUND),
        (errors.UnknownTicket("t"), grpc.StatusCode.FAILED_PRECONDITION),
        (errors.Draining("d"), grpc.StatusCode.UNAVAILABLE),
        (contract.ListingUnsupported("l"), grpc.StatusCode.UNIMPLEMENTED),
        (contract.BackendError("b"), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_a_refusal_keeps_its_message(error: Exception, code: grpc.StatusCode) -> None:
    assert status_of(error) == (code, str(error))


def test_what_is_not_foreseen_is_logged_and_kept_from_the_client(caplog: pytest.LogCaptureFixture) -> None:
    code, message = status_of(KeyError("secret"))
    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in message
    assert "secret" in caplog.text
