import json
import logging
import sys

from kvchaos_sidecar.logs import JsonFormatter


def test_a_record_is_one_json_object_on_one_line() -> None:
    record = logging.LogRecord("kvchaos.x", logging.WARNING, __file__, 1, 'said "%s"\n', ("é",), None)
    record.created = 0.5
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "WARNING",
        "logger": "kvchaos.x",
        "message": 'said "é"\n',
    }


def test_an_exception_is_part_of_the_object() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    assert "ValueError: broken" in json.loads(JsonFormatter().format(record))["exception"]
