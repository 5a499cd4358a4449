"""Sessions of AWS: where credentials and region come from, also those of a role, for as long as a run lasts. botocore
is imported when the first one is made; the rest of boto3, which takes half as long again, is not needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from singerlake.aws import errors
from singerlake.aws.errors import not_made
from singerlake.aws.settings import S3Settings, is_amazon
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.interpreter.process import made_to_last
from singerlake.storage.failures import waited, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning, send_until_answered
from singerlake.storage.patience import Patience

_FALLBACK_REGION = "us-east-1"

Result = TypeVar("Result")

_NO_STS = "leave aws_role_arn unset, or set AWS_ENDPOINT_URL_STS to where roles are assumed"
_DENIED = ("AccessDenied", "Forbidden", "403")
_UNREACHABLE = "check aws_region, AWS_ENDPOINT_URL_STS and the network"


@made_to_last()
def in_session(settings: S3Settings, make: Callable[[Any], Result], patience: Patience) -> Result:
    """What ``make`` makes of a botocore session for any service of AWS; nothing is sent yet. ``patience`` is that with
    what assumes a role. Raises ``AccessDeniedError`` and ``SettingError``."""
    import botocore.exceptions

    _keep_secrets_out_of_logs()
    try:
        return make(_session(settings, patience))
    except botocore.exceptions.ProfileNotFound as error:
        raise AccessDeniedError(
            "the AWS profile does not exist", hint="check aws_profile", profile=settings.profile
        ) from error
    except botocore.exceptions.BotoCoreError as error:
        raise not_made(error, settings) from error


def _keep_secrets_out_of_logs() -> None:
    """Hold botocore's log to INFO unless its own level is set: at DEBUG it shows session tokens, and what assuming a
    role answered. A plugin's DEBUG is set by people who then pass its log on. Credentials that cannot be renewed are
    logged with their traceback, in which is what a ``credential_process`` wrote; the error that is raised says it."""
    botocore = logging.getLogger("botocore")
    if botocore.level == logging.NOTSET:
        botocore.setLevel(logging.INFO)
    credentials = logging.getLogger("botocore.credentials")
    if not any(isinstance(each, _WithoutTraceback) for each in credentials.filters):
        credentials.addFilter(_WithoutTraceback())


class _WithoutTraceback(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and "efreshing temporary credentials failed" in str(record.msg):
            record.exc_info = None
        return True


def _explain_providers(session: Any) -> None:
    """Have what gives a session its credentials raise errors of botocore alone, now and when they are renewed: a
    command that is not there, a token file that cannot be read or an answer that is not JSON is raised as it is."""

    def guarded(work: Callable[..., Any], method: str) -> Callable[..., Any]:
        from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError

        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return work(*arguments, **options)
            except (BotoCoreError, ClientError, SingerlakeError):
                raise
            except Exception as error:
                raise CredentialRetrievalError(provider=method, error_msg=type(error).__name__) from error

        return call

    def loading(load: Callable[[], Any], method: str) -> Callable[[], Any]:
        def call() -> Any:
            credentials = guarded(load, method)()
            if credentials is not None:
                credentials.get_frozen_credentials = guarded(credentials.get_frozen_credentials, method)
            return credentials

        return call

    for provider in session.get_component("credential_provider").providers:
        provider.load = loading(provider.load, str(provider.METHOD))


def region_for(settings: S3Settings, session: Any, endpoint_url: str | None) -> str | None:
    """The region to sign for: servers other than AWS take any."""
    return settings.region or session.get_config_variable("region") or (_FALLBACK_REGION if endpoint_url else None)


def client_of(
    session: Any, service: str, *, region: str | None, endpoint_url: str | None, read_timeout: int, **options: Any
) -> Any:
    """A client of a service, which sends each request once unless ``options`` of botocore's configuration say
    otherwise: a silent retry hides whose write it was. ``read_timeout`` is in seconds."""
    from botocore.config import Config

    config = Config(
        **{
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "connect_timeout": 10,
            "read_timeout": read_timeout,
            "max_pool_connections": 32,
            "tcp_keepalive": True,
            **options,
        }
    )
    return session.create_client(service, region_name=region, endpoint_url=endpoint_url, config=config)


def _session(settings: S3Settings, patience: Patience) -> Any:
    """A botocore session that finds its credentials as the settings say."""
    import botocore.session

    from singerlake.aws.service_models import read_sooner

    session = botocore.session.Session(profile=settings.profile)
    read_sooner(session)
    if settings.access_key_id:
        session.set_credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
    else:
        _explain_providers(session)
    if settings.region:
        session.set_config_variable("region", settings.region)
    if not settings.role_arn:
        return session
    region = settings.region or session.get_config_variable("region") or _FALLBACK_REGION
    return in_role(session, settings, region, patience)


def in_role(source: Any, settings: S3Settings, region: str, patience: Patience) -> Any:
    """A session that acts in a role and assumes it again before its credentials expire, however long a run lasts.
    ``source`` is one with the credentials that may assume it. Raises ``AccessDeniedError`` where that has none."""
    import botocore.session
    from botocore.config import Config
    from botocore.credentials import (
        AssumeRoleCredentialFetcher,
        CredentialProvider,
        CredentialResolver,
        DeferredRefreshableCredentials,
    )

    from singerlake.aws.service_models import read_sooner

    credentials = source.get_credentials()
    if credentials is None:
        raise AccessDeniedError(
            "there are no credentials to assume the role with",
            hint="set aws_access_key_id and aws_secret_access_key, aws_profile, or AWS_* in the environment",
            role_arn=settings.role_arn,
        )
    endpoint = _sts_endpoint(settings)

    def sts(service: str, **options: Any) -> Any:
        config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, connect_timeout=10, read_timeout=20)
        return source.create_client(service, region_name=region, endpoint_url=endpoint, config=config, **options)

    extra = {"RoleSessionName": "singerlake"}
    if settings.role_external_id:
        extra["ExternalId"] = settings.role_external_id
    fetcher = AssumeRoleCredentialFetcher(sts, credentials, settings.role_arn, extra_args=extra)

    def not_assumed(error: Exception) -> SingerlakeError:
        return _not_assumed(error, settings, endpoint)

    def fetch() -> Any:
        try:
            return send_until_answered(
                fetcher.fetch_credentials,
                patience=patience,
                errors=DriverErrors(_meaning, partial(errors.waits_for, judge=_meaning)),
                translate=not_assumed,
                key=str(settings.role_arn),
            )
        except SingerlakeError:
            raise
        except Exception as error:
            raise not_assumed(error) from error

    class Role(CredentialProvider):  # type: ignore[misc]  # botocore has no types
        METHOD = "assume-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(refresh_using=fetch, method=self.METHOD)

    session = botocore.session.Session()
    read_sooner(session)
    session.register_component("credential_provider", CredentialResolver([Role()]))
    session.set_config_variable("region", region)
    return session


def _sts_endpoint(settings: S3Settings) -> str | None:
    """Stores other than AWS answer STS at their S3 endpoint; a private S3 endpoint of AWS does not."""
    if "AWS_ENDPOINT_URL_STS" in os.environ or (settings.endpoint_url and is_amazon(settings.endpoint_url)):
        return None
    return settings.endpoint_url


def _not_assumed(error: Exception, settings: S3Settings, endpoint: str | None) -> SingerlakeError:
    """Why no role was assumed. A server that knows S3 alone may answer in any way to such a request."""
    from botocore import exceptions as boto

    where: dict[str, object] = {"role_arn": settings.role_arn, **({"endpoint": endpoint} if endpoint else {})}
    if errors.has_no_answer(error):
        return without_answer(
            error, "the server that assumes roles", wrong_host=_UNREACHABLE, wrong_port=_UNREACHABLE, **where
        )
    answer = errors.answer(error, settings) if isinstance(error, boto.ClientError) else {}
    if answer and (why := _refused(error)) is not None:
        hint = "check aws_role_arn, aws_role_external_id and whom the role trusts"
        return AccessDeniedError(f"the role cannot be assumed: {why}", hint=hint, **where, **answer)
    if answer and _meaning(error).may_pass:
        message = "the role cannot be assumed: storage could not answer"
        return StorageUnavailableError(message, hint="run again later", **where, **answer, **waited(error))
    return SettingError(
        "the server that answers cannot assume roles", hint=_NO_STS, **where, error=type(error).__name__, **answer
    )


def _meaning(error: Exception) -> Meaning:
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return errors.meaning(error)
    if errors.code_of(error) in errors.BUSY_CODES:
        return Meaning.BUSY
    return Meaning.FATAL if _refused(error) is not None else errors.meaning_of_status(error)


def _refused(error: Exception) -> str | None:
    """How the server refused the credentials, or what they may do; None where it did not."""
    code = errors.explained_by(error)
    if code in _DENIED:
        return "denied access"
    found = errors.REFUSED_CREDENTIALS.get(code)
    return found[1].removeprefix("storage ") if found is not None else None
