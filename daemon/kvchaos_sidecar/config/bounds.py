"""A closed interval as a pydantic annotation, so that an error names both ends."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers from ``low`` to ``high``, both included. NaN is in no interval."""

    low: int
    high: int

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "minimum": self.low, "maximum": self.high}

    def _check(self, value: float) -> float:
        if not self.low <= value <= self.high:
            expected = f"in [{self.low}, {self.high}]" if self.low < self.high else f"{self.low}"
            raise ValueError(f"{value} is not {expected}")
        return value
