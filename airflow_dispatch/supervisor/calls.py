"""Making the call of a committed intent, once. The reply is a value.

What was not clearly answered is `Unclear`.

An opening is read against the record once more right before it is sent: no Open leaves from a read
that saw a cancel. [cancel-final]
"""

from __future__ import annotations

from typing_extensions import assert_never

from airflow_dispatch.core import decision
from airflow_dispatch.core.identity import Mark, ObjectId
from airflow_dispatch.core.record import (
    Call,
    NotSent,
    Open,
    Record,
    Reply,
    Start,
    Stop,
    StopJob,
    Unclear,
    Withdraw,
)
from airflow_dispatch.errors import ClusterMismatch, ClusterUnavailable, InvariantBroken
from airflow_dispatch.ports.cluster import (
    Cluster,
    OpenOrder,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)
from airflow_dispatch.supervisor import filing
from airflow_dispatch.supervisor.services import Services


async def make(services: Services, cluster: Cluster, record: Record, call: Call) -> Reply:
    """Send the call to the cluster and say what came back."""
    if isinstance(call.intent, Open):
        fresh = await filing.load(services, record.state.key)
        reason = decision.reason_not_to_send(fresh, call)
        if reason:
            return NotSent(reason)
    try:
        return await _sent(cluster, record, call)
    except ClusterMismatch as error:
        return NotSent(str(error))
    except ClusterUnavailable as error:
        return Unclear(str(error))


async def _sent(cluster: Cluster, record: Record, call: Call) -> Reply:
    state, job = record.state, record.job
    key, fingerprint, grace = state.key, state.fingerprint, job.grace_seconds
    match call.intent:
        case Start(submission=n, attempt=m, tag=tag):
            mark = Mark(key.task.deployment, key.task.digest, key.generation, n, m, tag)
            if call.deadline is None:
                raise InvariantBroken("a start has a deadline")
            return await cluster.start(StartOrder(key, job, mark, fingerprint, call.deadline))
        case Open(object=wanted, permit=permit):
            mark = _mark(record, wanted)
            if call.deadline is None:
                raise InvariantBroken("an opening has a deadline")
            order = OpenOrder(key, wanted, mark, fingerprint, permit, call.number, call.deadline)
            return await cluster.open(order)
        case Stop(object=wanted, reason=reason):
            return await cluster.stop(
                StopOrder(key, wanted, _mark(record, wanted), fingerprint, grace, reason)
            )
        case StopJob():
            reason = f"the job is {state.outcome}"
            return await cluster.stop_job(StopJobOrder(key, fingerprint, grace, reason))
        case Withdraw(object=wanted, permit=permit):
            return await cluster.withdraw(
                WithdrawOrder(key, wanted, _mark(record, wanted), fingerprint, permit)
            )
        case _:
            assert_never(call.intent)


def _mark(record: Record, wanted: ObjectId) -> Mark:
    known = record.state.object(wanted)
    if known is None:
        raise InvariantBroken(f"a call names the object {wanted}, which is not on record")
    return known.mark
