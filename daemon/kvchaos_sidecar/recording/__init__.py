"""Recording a run: every call, what the rules did to it and what became of it. docs/recording.md."""
