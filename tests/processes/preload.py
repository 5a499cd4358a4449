"""What the process that others are forked from has ready: the modules they need, and botocore's descriptions of
services, which take longer to parse than most of these processes take for their work."""

from __future__ import annotations

import encodings.idna
import gc

import boto3
import psycopg
import pytest

import singerlake.storage.drivers.s3.driver
import singerlake.stores.dynamodb.log
import singerlake.stores.merge.store
import singerlake.stores.postgres.store
import tests.faults.support.worker
from tests.processes import service_models

service_models.share()
for service in ("s3", "dynamodb"):
    boto3.Session("nobody", "nothing").client(service, region_name="us-east-1")
# What is there already is no garbage: looking for some in it would copy its pages in each process.
gc.collect()
gc.freeze()

__all__ = ["encodings", "psycopg", "pytest", "singerlake", "tests"]
