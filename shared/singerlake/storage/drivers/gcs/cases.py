"""The refusals of Google Cloud Storage that are explained to the person who reads them.

The statuses and reasons are those of https://cloud.google.com/storage/docs/json_api/v1/status-codes. A hold is told by
its words alone: its reason is the one of a permission that is missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from singerlake.errors import (
    AccessDeniedError,
    ConditionNotSupportedError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.storage.lost_replies import Meaning

CREDENTIALS = (
    "set gcs_service_account_file or GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth application-default login'"
)
_ROLE = "roles/storage.objectUser has what a lake needs"
_PROJECT = "set gcs_user_project to a project that you may bill, with serviceusage.services.use on it"
_KEPT = "wait until it may be removed, then run again; writers need a bucket that lets objects be replaced"
_HELD = "release the hold, or wait until it ends; a later run removes what was left"
_PERMISSION = re.compile(r"\bstorage\.[a-zA-Z]+\.[a-zA-Z]+\b")


@dataclass(frozen=True, slots=True)
class Case:
    """Refusals with this ``status`` whose reason or words match ``says``."""

    status: int
    says: str
    kind: type[SingerlakeError]
    message: str
    hint: str
    means: Meaning = Meaning.FATAL

    def hint_for(self, words: str, credentials_from: str) -> str:
        """The next step; names the permission that Google's words name, and what gives the credentials."""
        permission = _PERMISSION.search(words)
        if permission and _ROLE in self.hint:
            return f"grant {permission[0]} on the bucket; {_ROLE}"
        return self.hint.replace("{credentials}", credentials_from)


_CASES = (
    Case(
        400, "requester pays|UserProjectMissing", SettingError, "requests to this bucket are to be paid for", _PROJECT
    ),
    Case(400, "user ?project", SettingError, "storage does not know the project to be billed", _PROJECT),
    Case(400, "invalid bucket name", SettingError, "that is not a bucket name", "check lake_root"),
    Case(400, "kms", SettingError, "storage cannot use the encryption key", "check gcs_kms_key_name"),
    # The bytes that came were not those that were sent, and storage kept none of them.
    Case(
        400,
        "match calculated",
        StorageUnavailableError,
        "bytes changed on their way to storage",
        "run again",
        Meaning.BUSY,
    ),
    Case(401, "anonymous", AccessDeniedError, "storage wants credentials, and there are none", CREDENTIALS),
    Case(
        401,
        "",
        AccessDeniedError,
        "storage does not accept the credentials",
        "check {credentials}, whose key may be deleted; or sign in again",
    ),
    Case(403, "retentionPolicyNotMet", AccessDeniedError, "a retention policy keeps the object", _KEPT),
    Case(403, "objectUnderActiveHold|under active .*hold", AccessDeniedError, "a hold keeps the object", _HELD),
    Case(
        403,
        "accountDisabled|billing ?(NotEnabled|account|is)",
        AccessDeniedError,
        "billing of the bucket's project is off",
        "turn it on in the console of Google Cloud",
    ),
    Case(403, "userProject|serviceusage", AccessDeniedError, "the project may not be billed", _PROJECT),
    Case(
        403,
        "kms",
        AccessDeniedError,
        "storage may not use the encryption key",
        "grant roles/cloudkms.cryptoKeyEncrypterDecrypter on gcs_kms_key_name to the service agent of Cloud Storage",
    ),
    Case(
        403,
        "vpcServiceControls|organization.s policy",
        AccessDeniedError,
        "a policy of the organization forbids the request",
        "ask for access from this network, which VPC Service Controls may keep out",
    ),
    Case(
        403,
        "accessNotConfigured",
        AccessDeniedError,
        "the Cloud Storage API is off",
        "turn it on for the credentials' project",
    ),
    Case(
        403,
        "rateLimitExceeded|quotaExceeded",
        StorageUnavailableError,
        "storage is busy",
        "run again later",
        Meaning.BUSY,
    ),
    Case(403, "", AccessDeniedError, "storage denied access", f"look at reason; {_ROLE}"),
    Case(404, "", NoSuchBucketError, "the bucket does not exist", "check lake_root and gcs_endpoint_url"),
    Case(
        412,
        "orgPolicy|constraints/",
        AccessDeniedError,
        "a policy of the organization forbids the request",
        "look at reason, and at gcs_kms_key_name",
    ),
    Case(501, "", ConditionNotSupportedError, "storage does not know this request", "use a store without conditions"),
)


def case_of(status: int, said: str) -> Case | None:
    """The first case that a refusal with this status fits, whose reason and words are ``said``."""
    fitting = (case for case in _CASES if case.status == status)
    return next((case for case in fitting if re.search(case.says, said, re.IGNORECASE)), None)
