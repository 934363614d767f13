"""Flink behind two pipes: jobs come in as lines of JSON, and how they ended goes out.

Runs in the environment that `make flink` sets up, and needs nothing of weft's. The cluster is started once
and stays, so that a job's time has neither a JVM's start nor a cluster's in it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "pipeline.object-reuse": "true",
    "rest.address": "localhost",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.network.max": "1gb",
    "taskmanager.memory.network.min": "1gb",
}


def main(parallelism: int) -> None:
    # What the JVM prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cluster = started(parallelism)
    port = cluster.getRestAddress().get().getPort()
    tables = connected({"parallelism.default": str(parallelism), "rest.port": str(port)})
    for line in sys.stdin:
        try:
            run(cluster, tables, **json.loads(line))
            said = ""
        except Exception as error:
            said = str(error)
        print(json.dumps(said), file=answers, flush=True)
    cluster.close()
    # The JVM's files lie in a folder that goes when this process has ended.
    with suppress(Py4JError):
        get_gateway().jvm.System.exit(0)
    with suppress(ChildProcessError):
        os.wait()


def started(slots: int) -> Any:
    """A cluster in this process's JVM."""
    minicluster = get_gateway().jvm.org.apache.flink.runtime.minicluster
    settings = configuration({"rest.port": "0"})._j_configuration
    builder = minicluster.MiniClusterConfiguration.Builder().setConfiguration(settings)
    cluster = minicluster.MiniCluster(builder.setNumSlotsPerTaskManager(slots).build())
    cluster.start()
    return cluster


def connected(settings: dict[str, str]) -> TableEnvironment:
    """SQL in streaming mode on that cluster."""
    remote = configuration({"execution.target": "remote", **settings})
    mode = EnvironmentSettings.new_instance().with_configuration(remote).in_streaming_mode()
    return TableEnvironment.create(mode.build())


def configuration(more: dict[str, str]) -> Configuration:
    made = Configuration()
    for name, value in {**SETTINGS, **more}.items():
        made.set_string(name, value)
    return made


def run(cluster: Any, tables: TableEnvironment, create: list[str], insert: list[str]) -> None:
    """Create tables, then do all inserts as one job; returns when it has ended."""
    for statement in create:
        tables.execute_sql(statement)
    if insert:
        job = tables.create_statement_set()
        for statement in insert:
            job.add_insert_sql(statement)
        result = job.execute()
        # The client asks every few seconds whether a job has ended; the cluster says so at once.
        cluster.requestJobResult(result.get_job_client().get_job_id()._j_job_id).get()
        result.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
