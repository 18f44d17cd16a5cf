import json

from google.protobuf.timestamp_pb2 import Timestamp

from kvchaos.cli.plain import iso, plain
from kvchaos.v1 import common_pb2, control_pb2


def test_numbers_stay_numbers_and_every_field_is_there() -> None:
    faults = common_pb2.FaultInject(seed=-(2**63), gap_indices=[2**40], gap_tail_ratios=[0.5])
    assert json.loads(json.dumps(plain(faults))) == {
        "rate": 0.0,
        "seed": -(2**63),
        "gap_indices": [2**40],
        "gap_tail_ratios": [0.5],
        "generation": 0,
        "halted": False,
        "rules": [],
    }


def test_messages_nest_and_an_unset_one_is_null() -> None:
    session = control_pb2.SessionStatus(client_name="c", transport=common_pb2.TRANSPORT_HANDOFF)
    status = plain(control_pb2.GetStatusResponse(sessions=[session]))
    assert status["backend"] is None
    assert status["sessions"][0]["transport"] == "handoff"
    assert status["sessions"][0]["opened_at"] is None


def test_moments_are_written_in_utc_to_the_millisecond() -> None:
    assert iso(Timestamp(seconds=1_700_000_000, nanos=5_999_999)) == "2023-11-14T22:13:20.005Z"
    assert iso(Timestamp()) == ""
