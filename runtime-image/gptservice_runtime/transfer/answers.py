"""What a source's answer means: a refusal for good, or something that passes."""

from http import HTTPStatus

from gptservice_runtime import contract, models
from gptservice_runtime.transfer import retrying
from gptservice_runtime.transfer.source import Refusal


def fault(refusal: Refusal, said: str, *, denied: str, missing: str, throttled: bool = False) -> Exception:
    """The exception for an answer that is no success: models.ModelError or retrying.PassingError.

    Args:
        refusal: the answer.
        said: what was asked for, and what was answered, without secrets.
        denied: what to do about 401 and 403.
        missing: what to do about 404.
        throttled: whether the source said "slower" by another status than 429.
    """
    after = retrying.retry_after(refusal.headers.get("Retry-After"))
    if throttled or refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
        return retrying.PassingError(contract.REASON_HUB_THROTTLED, said, retry_after=after)
    if refusal.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, f"{said}: {denied}")
    if refusal.status == HTTPStatus.NOT_FOUND:
        return models.ModelError(contract.REASON_MODEL_NOT_FOUND, f"{said}: {missing}")
    if refusal.status == HTTPStatus.PRECONDITION_FAILED:
        changed = "it was replaced while it was being fetched; the next start takes what is there now"
        return models.ModelError(contract.REASON_MODEL_DOWNLOAD_FAILED, f"{said}: {changed}")
    return retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said, retry_after=after)


def denied_for_now(said: str, denied: str) -> retrying.PassingError:
    """The exception for a refusal of what was shown, where the next try shows something else.

    Whoever gives tokens and credentials may have been out of reach, or have given some that others do not know yet.
    """
    return retrying.PassingError(contract.REASON_MODEL_ACCESS_DENIED, f"{said}: {denied}")
