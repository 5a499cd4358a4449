"""Sessions of AWS: where credentials and region come from. botocore is imported when the first one is made, not before;
the rest of boto3, which takes half as long again to import, is not needed for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from singerlake.aws.errors import not_made
from singerlake.aws.role import in_role
from singerlake.aws.settings import S3Settings
from singerlake.errors import AccessDeniedError, SingerlakeError
from singerlake.interpreter.collector import made_to_last
from singerlake.storage.patience import Patience

_FALLBACK_REGION = "us-east-1"

Result = TypeVar("Result")


@made_to_last()
def in_session(settings: S3Settings, make: Callable[[Any], Result], patience: Patience) -> Result:
    """What ``make`` makes of a botocore session that finds credentials and region as the settings say, for any service
    of AWS; nothing is sent yet. ``patience`` is that with what assumes a role. Raises ``AccessDeniedError`` and
    ``SettingError``."""
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
