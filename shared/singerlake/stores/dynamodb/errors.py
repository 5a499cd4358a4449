"""What an answer of DynamoDB means: for a request that may be tried again, and for the person who reads the error.

The codes are those of https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html and of
the cancellation reasons at https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from singerlake.aws import errors as aws_errors
from singerlake.aws.settings import S3Settings
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.storage.failures import masked, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning

_REFUSED = "ConditionalCheckFailed"
_MEANINGS = {
    _REFUSED: Meaning.REFUSED,
    "ConditionalCheckFailedException": Meaning.REFUSED,
    "TransactionConflict": Meaning.CONFLICT,
    "TransactionConflictException": Meaning.CONFLICT,
    "ReplicatedWriteConflictException": Meaning.CONFLICT,
    "ProvisionedThroughputExceeded": Meaning.BUSY,
    "ProvisionedThroughputExceededException": Meaning.BUSY,
    "RequestLimitExceeded": Meaning.BUSY,
    "Throttling": Meaning.BUSY,
    "ThrottlingError": Meaning.BUSY,
    "ThrottlingException": Meaning.BUSY,
    "LimitExceededException": Meaning.BUSY,
    # An earlier try under the same token is still at work.
    "TransactionInProgressException": Meaning.UNKNOWN,
}
_WORST_FIRST = (Meaning.FATAL, Meaning.REFUSED, Meaning.UNKNOWN, Meaning.CONFLICT, Meaning.BUSY)

_POLICY = "grant the action that the reason names; 'singerlake store create' prints all that are needed"
_KEY_ID = "check aws_access_key_id"
_SIGNATURE = "check aws_secret_access_key, and the clock of this machine"
_EXPIRED = "renew aws_session_token"
_EXPLAINED: dict[str, tuple[type[SingerlakeError], str, str]] = {
    "AccessDeniedException": (AccessDeniedError, "DynamoDB denied access", _POLICY),
    "UnrecognizedClientException": (AccessDeniedError, "AWS does not know the access key", _KEY_ID),
    "InvalidClientTokenId": (AccessDeniedError, "AWS does not know the access key", _KEY_ID),
    "MissingAuthenticationToken": (AccessDeniedError, "AWS asks for credentials", _KEY_ID),
    "MissingAuthenticationTokenException": (AccessDeniedError, "AWS asks for credentials", _KEY_ID),
    "InvalidSignatureException": (AccessDeniedError, "the secret does not belong to the access key", _SIGNATURE),
    "IncompleteSignatureException": (AccessDeniedError, "the secret does not belong to the access key", _SIGNATURE),
    "ExpiredTokenException": (AccessDeniedError, "the session token has expired", _EXPIRED),
    "ResourceNotFoundException": (
        SettingError,
        "the DynamoDB table does not exist",
        "check dynamodb_table and aws_region, or make it with 'singerlake store create'",
    ),
    "ValidationException": (
        SettingError,
        "the DynamoDB table cannot take this request",
        "let dynamodb_table name a table that 'singerlake store create' made: others have other keys",
    ),
    "UnknownOperationException": (
        SettingError,
        "the server that answers has only a part of DynamoDB",
        "use Amazon DynamoDB or DynamoDB Local: the store needs TransactWriteItems",
    ),
}
_WRONG_HOST = "check dynamodb_endpoint_url and aws_region"
_WRONG_PORT = "check host and port of dynamodb_endpoint_url, that the server runs, aws_region and the network"
_SHOWN = 300


class UnprocessedError(Exception):
    """A batch was answered with a part of it left over, for want of throughput."""


class NotDynamoDBError(Exception):
    """A success that is not in DynamoDB's form, which botocore would take for an empty one."""


def meaning(error: Exception) -> Meaning:
    """What a failed write tells about its effect. Errors that are not botocore's are raised again."""
    from botocore.exceptions import ClientError

    if isinstance(error, UnprocessedError):
        return Meaning.BUSY
    if isinstance(error, NotDynamoDBError):
        return Meaning.UNKNOWN
    if not isinstance(error, ClientError):
        return aws_errors.meaning(error)
    reasons = [reason["Code"] for reason in _reasons(error) if reason.get("Code", "None") != "None"]
    if reasons:
        meanings = {_MEANINGS.get(code, Meaning.FATAL) for code in reasons}
        return next(means for means in _WORST_FIRST if means in meanings)
    code, status = aws_errors.code_of(error), aws_errors.status_of(error)
    if code in _MEANINGS:
        return _MEANINGS[code]
    return Meaning.UNKNOWN if status >= 500 else Meaning.BUSY if status == 429 else Meaning.FATAL


DYNAMO_ERRORS = DriverErrors(meaning, partial(aws_errors.waits_for, judge=meaning))


def translate(error: Exception, settings: S3Settings, **context: object) -> SingerlakeError:
    """This package's error for one of botocore's, with DynamoDB's own words but without secrets. What is not botocore's
    is raised as it is."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, UnprocessedError):
        return StorageUnavailableError("DynamoDB kept asking to slow down", hint="run again later", **context)
    if isinstance(error, NotDynamoDBError):
        return SettingError("the server that answers is not DynamoDB", hint="check dynamodb_endpoint_url", **context)
    if aws_errors.has_no_answer(error):
        return without_answer(error, "DynamoDB", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    if isinstance(error, ResponseParserError):
        return translate(NotDynamoDBError(), settings, **context)
    if not isinstance(error, boto.ClientError):
        return aws_errors.translate(error, settings, **context)
    code = aws_errors.code_of(error)
    if any(reason.get("Code") == "ValidationError" for reason in _reasons(error)):
        code = "ValidationException"
    kind, message, hint = _EXPLAINED.get(code, (SettingError, "DynamoDB refused a request", "look at code and reason"))
    if code not in _EXPLAINED and meaning(error) is not Meaning.FATAL:
        kind, message, hint = StorageUnavailableError, "DynamoDB could not answer", "run again later"
    context = {**context, "code": code or f"HTTP {aws_errors.status_of(error)}"}
    if "Signature" not in code:  # its message quotes the signed headers, a session token among them
        reason = _reason(error, settings)
        context |= {"reason": reason} if reason else {}
    return kind(message, hint=hint, **context)


def _reason(error: Any, settings: S3Settings) -> str:
    said = [aws_errors.details(error), *_reasons(error)]
    text = "; ".join(str(each["Message"]) for each in said if each.get("Message"))
    return masked(text, settings.secrets())[:_SHOWN]


def _reasons(error: Any) -> list[dict[str, Any]]:
    """Why a transaction was cancelled: one entry an action, in their order."""
    reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons
