"""Reading from agents' results whether a step failed."""

import pytest

from contextopt.engine.agents.plans import StepOutcome, extract_successful_steps


@pytest.mark.parametrize(
    "result",
    [
        "failed", "FAILED", "failure", "fail", "error", "Error: exit 1", "failed: exit 1",
        "Failed - see the log", "failed (exit 1)", "failed, since the port was taken",
        "Failed. 3 tests are red.", "Failed!", "Failed to resolve the import", "failed with exit 1",
        "Failed at step 2", "Error in cart.py", "**Failed**", "timeout", "Timeout after 30 s", "timed out",
        "time-out", "aborted", "Aborted by the user", "rejected", "Rejected: no tests", "crashed",
        "Crashed on start", "not ok", "unsuccessful", "Error: it could not be resolved", "❌ failed",
        "❌ The page is blank", "✗ 2 tests", "Tests failed", "The build failed.", "40 passed, 2 failed",
        "No warnings. Tests failed", "Login timed out", "Tests still fail", "Did not work", "It didn't work",
        "The tests did not pass", "not done", "Not finished yet", "It is not possible", "Could not connect",
        "couldn't connect", "Cannot reproduce", "Unable to start", "does not build", "feil",
        "Feil: fant ikke filen", "feilet", "Feilet på linje 3", "Feil i linje 3", "Testene feilet",
        "mislyktes", "ikke ok", "Kunne ikke koble til", "Virket ikke", "Det virket ikke", "fungerer ikke",
        "Ikke ferdig", "Fikk ikke testene til å kjøre", "Testene feiler fortsatt", "avbrutt",
    ],
)  # fmt: skip
def test_results_that_report_a_failure(result: str) -> None:
    assert StepOutcome(0, result).has_failed


@pytest.mark.parametrize(
    "result",
    [
        "", "ok", "success", "done", "failover configured", "Fail-fast enabled", "Failing tests fixed",
        "Failure handling added", "timeout handling added", "Timeouts raised", "Error handling added",
        "error-handling added", "Errors are logged", "Error.cause is set",
        "Rejected invalid input as planned", "Feilen er rettet", "Feilmelding lagt til",
        "Feil i parseren er rettet", "Error in the parser fixed", "Feilsøkt og løst", "Abort button added",
        "Crash reports are sent", "No tests failed", "40 passed, 0 failed", "None of the 40 tests failed",
        "Retries what failed", "Requests are marked as failed", "It did not fail", "Ran the one that failed",
        "Did the rest", "Notes added", "Not only done but tested", "Ingen tester feilet",
        "Ikke lenger synlig for andre", "Requests over 1 MB are rejected", "Kunne fjernes",
        "Does not log secrets any more", "Did not need a change",
    ],
)  # fmt: skip
def test_results_that_report_no_failure(result: str) -> None:
    assert not StepOutcome(0, result).has_failed


@pytest.mark.parametrize(
    ("result", "has_failed"),
    [
        ("", True), ("ran", True), ("password reset", True), ("ok", False), ("Done, with a warning", False),
        ("Passed", False), ("✅ done", False), ("Done, but the tests failed", True),
    ],
)  # fmt: skip
def test_an_error_counts_without_a_success(result: str, has_failed: bool) -> None:
    assert StepOutcome(0, result, "boom").has_failed is has_failed
    assert not StepOutcome(0, "ran", " ").has_failed


def test_steps_that_failed_are_left_out() -> None:
    outcomes = [
        StepOutcome(1, "failed"),
        StepOutcome(2, "ok"),
        StepOutcome(9, "error"),
        StepOutcome(3, "", "boom"),
    ]
    assert extract_successful_steps(outcomes, "a\n\n b \nc\nd\n") == ("a", "c")
    assert extract_successful_steps([], "") == ()
