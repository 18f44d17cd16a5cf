"""Stores a prompt through the blend worker and recovers it under every policy.

The first recovery that keeps what is after a gap is held to a full prefill.

    docker compose exec blend python3 /demo/recover.py [--tokens 1024] [--rounds 1]

Set faults first, for example: docker compose exec sidecar kvchaos set --gap-indices 1
"""

from __future__ import annotations

import argparse
import random
import sys

import grpc

from kvchaos.v1 import blend_pb2 as pb
from kvchaos.v1.blend_pb2_grpc import BlendStub

ADDRESS = "unix:/tmp/blend.sock"
SMALLEST_VOCABULARY = 32_000
SEGMENTED = pb.RECOVERY_POLICY_SEGMENTED_PREFIX
POLICIES = (pb.RECOVERY_POLICY_FULL_PREFILL, pb.RECOVERY_POLICY_PREFIX, SEGMENTED)


def main() -> int:
    """Returns the exit code: 1 when a recovered cache differs from a full prefill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024, metavar="N", help="length of the prompt")
    parser.add_argument("--rounds", type=int, default=1, metavar="N")
    options = parser.parse_args()
    chance = random.Random(1)  # noqa: S311  (the same prompt every time)
    ids = [chance.randrange(SMALLEST_VOCABULARY) for _ in range(options.tokens)]
    prompt = pb.Prompt(token_ids=pb.TokenIds(ids=ids))
    with grpc.insecure_channel(ADDRESS) as channel:
        stub = BlendStub(channel)
        stored = stub.Store(pb.StoreRequest(prompt=prompt))
        failed = "".join(f", {count} {reason}" for reason, count in stored.failed.items())
        print(f"{stored.stored} of {stored.chunks} chunks stored, {stored.present} were there{failed}")
        print(f"{'policy':<20}{'loaded':>8}{'recomputed':>12}{'dropped':>9}{'seconds':>9}  exact")
        reports = [
            _recover(stub, prompt, policy, verify=round_number == 0 and policy == SEGMENTED)
            for round_number in range(options.rounds)
            for policy in POLICIES
        ]
    return 0 if all(report.recovered for report in reports) else 1


def _recover(stub: BlendStub, prompt: pb.Prompt, policy: int, verify: bool) -> pb.RecoveryReport:
    request = pb.RecoverRequest(prompt=prompt, policy=policy, new_tokens=4, verify=verify)
    report = [event.report for event in stub.Recover(request)][-1]
    name = pb.RecoveryPolicy.Name(report.plan.policy).removeprefix("RECOVERY_POLICY_").lower()
    seconds = report.total.ToTimedelta().total_seconds()
    exact = "yes" if report.HasField("verification") and report.verification.passed else "-"
    print(
        f"{name:<20}{report.plan.tokens_loaded:>8}{report.plan.tokens_recomputed:>12}"
        f"{report.plan.tokens_dropped:>9}{seconds:>9.2f}  {exact if report.recovered else 'NO'}",
        flush=True,
    )
    for gate in report.verification.gates:
        if not gate.passed:
            print(f"  {gate.name}: {gate.measured:g}, at most {gate.limit:g}; {gate.detail}")
    return report


if __name__ == "__main__":
    sys.exit(main())
