"""``python -m planners.referee CERTIFICATE``: check a proof that no plan needs fewer bytes."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from pathlib import Path
from typing import Annotated

import typer

from planners.command_line.typer_frame import CommandLine
from planners.errors import InvalidCertificateError, errors_at
from planners.files.formats import read_problem
from planners.files.json_file import read_json
from planners.files.problem_file import problem_digest
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.referee.certificate import Proven
from planners.referee.cost_certificate import check_any_certificate
from planners.text.byte_units import both_bytes
from planners.text.plain_text import one_line

EXIT_NOT_PROVEN = 1

app = CommandLine()


@app.command("referee")
def referee(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="Certificate file.")],
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="[INSTANCE]", help="The instance that the certificate has to be about."
        ),
    ] = None,
) -> None:
    """Check a certificate, and print what it proves.

    Exits with 1 if a part of the proof does not hold, which is printed; 2 after an error.
    """
    try:
        with errors_at(certificate):
            proven = check_any_certificate(read_json(certificate))
        digest = problem_digest(proven.problem)
        problem = None if instance is None else read_problem(instance)
        if problem is not None and problem_digest(problem) != digest:
            raise InvalidCertificateError(
                f"it is about {digest}, and {instance} is {problem_digest(problem)}"
            )
        if proven.of_cost and problem is not None and terms(problem) != terms(proven.problem):
            raise InvalidCertificateError(
                f"it is about other prices or another capacity than {instance} has"
            )
    except InvalidCertificateError as error:
        standard_output.write(f"not proven: {one_line(str(error))}\n")
        raise typer.Exit(EXIT_NOT_PROVEN) from None
    standard_output.write(f"proven: {in_words(proven, problem)}; {digest}\n")


def terms(problem: Problem) -> tuple[int | None, set[tuple[int, int, int]]]:
    """Return the capacity, and the price of each pair, which no digest holds."""
    return problem.capacity, {
        (min(a, b), max(a, b), p) for a, b, p in problem.reuse_prices.tolist()
    }


def in_words(proven: Proven, problem: Problem | None) -> str:
    """Return one line on the proof; its name and capacity are only those of an instance."""
    name = "the problem" if problem is None else one_line(problem.name)
    if proven.bound is None:
        return f"{name} has no plan"
    said = f"no plan of {name} has a peak below {both_bytes(proven.bound)}"
    if proven.of_cost:
        said = (
            f"no plan of {name} within {proven.problem.capacity} B costs less than {proven.bound}"
        )
        return said + ", and a plan costs this: it is optimal" * proven.is_met
    if problem is not None and problem.capacity is not None and proven.bound > problem.capacity:
        said += f", so none fits its capacity of {both_bytes(problem.capacity)}"
    if proven.is_met:
        said += ", and a plan has this peak: it is optimal"
    return said


main = app.run

if __name__ == "__main__":
    main()
