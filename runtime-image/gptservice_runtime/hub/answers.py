"""What a hub's answer means: a refusal for good, or something that passes."""

from collections.abc import Mapping
from http import HTTPStatus

from gptservice_runtime import contract, models, termination
from gptservice_runtime.hub import retrying

_GATED = "GatedRepo"
_MOST_QUOTED = 200


def fault(status: int, headers: Mapping[str, str], what: str, token: str | None) -> Exception:
    """The exception for an answer that is no success: models.ModelError or retrying.PassingError.

    Args:
        status: of the answer.
        headers: of the answer, whatever their case.
        what: repository, revision or file that was asked for, and where.
        token: the one that was sent, so that the hub's own words cannot show it.
    """
    said = f"{what}: the hub answered {status}{_quote(headers, token)}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        denied = f"{said}: {_remedy(headers, token)}"
        return models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, denied)
    if status == HTTPStatus.NOT_FOUND:
        return models.ModelError(
            contract.REASON_MODEL_NOT_FOUND, f"{said}: check the organisation, the name and the revision"
        )
    after = retrying.retry_after(headers.get("Retry-After"))
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return retrying.PassingError(contract.REASON_HUB_THROTTLED, said, retry_after=after)
    return retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said, retry_after=after)


def _quote(headers: Mapping[str, str], token: str | None) -> str:
    message = headers.get("X-Error-Message")
    if message is None:
        return ""
    return f" ({termination.mask(message, [token] if token else [])[:_MOST_QUOTED]})"


def _remedy(headers: Mapping[str, str], token: str | None) -> str:
    """Hugging Face's own hub answers 401 for a repository that does not exist, too, so as not to tell."""
    gated = headers.get("X-Error-Code") == _GATED
    if token is None:
        first = "it is gated" if gated else "it is private or gated, or does not exist"
        return f"{first}, and no token was sent: name a Secret with one in huggingFaceTokenSecretRef"
    if gated:
        return "it is gated, and the token's owner has not been let in: ask for access on the repository's page"
    return (
        "the token of huggingFaceTokenSecretRef is not valid, or may not read it: mend the Secret, or ask for access "
        "if the repository is gated"
    )
