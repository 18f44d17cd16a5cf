"""The parts of the benchmark. Each has ``run(results, short)`` and can be run alone."""
