"""Acting in a role of AWS, for as long as a run lasts, and what is said where it cannot be assumed."""

from __future__ import annotations

import os
from typing import Any

from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError
from singerlake.storage.drivers.s3.errors import S3_ERRORS, is_denied, meaning, translate
from singerlake.storage.drivers.s3.settings import S3Settings, is_amazon
from singerlake.storage.failures import without_answer
from singerlake.storage.lost_replies import send_until_answered
from singerlake.storage.patience import Patience

_NO_STS = "leave aws_role_arn unset, or set AWS_ENDPOINT_URL_STS to where roles are assumed"
_UNREACHABLE = "check aws_region, AWS_ENDPOINT_URL_STS and the network"


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

    from singerlake.storage.drivers.s3.service_models import read_sooner

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
                errors=S3_ERRORS,
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
    """Why no role was assumed. A server that knows S3 alone answers in any way to a request of another service: with an
    error of its own, a page, or nothing that has credentials in it."""
    from botocore import exceptions as boto

    where: dict[str, object] = {"role_arn": settings.role_arn, **({"endpoint": endpoint} if endpoint else {})}
    if isinstance(error, (boto.HTTPClientError, boto.ConnectionError)):
        return without_answer(
            error, "the server that assumes roles", wrong_host=_UNREACHABLE, wrong_port=_UNREACHABLE, **where
        )
    if isinstance(error, boto.ClientError) and (is_denied(error) or meaning(error).may_pass):
        told = translate(error, settings)
        if not isinstance(told, AccessDeniedError):
            return type(told)(f"the role cannot be assumed: {told.message}", hint=told.hint, **where, **told.context)
        hint = "check aws_role_arn, aws_role_external_id and whom the role trusts"
        why = told.message.removeprefix("storage ")
        return AccessDeniedError(f"the role cannot be assumed: {why}", hint=hint, **where, **told.context)
    return SettingError(
        "the server that answers cannot assume roles",
        hint=_NO_STS,
        **where,
        error=type(error).__name__,
        **_told(error, settings),
    )


def _told(error: Exception, settings: S3Settings) -> dict[str, object]:
    from botocore.exceptions import ClientError

    return dict(translate(error, settings).context) if isinstance(error, ClientError) else {}
