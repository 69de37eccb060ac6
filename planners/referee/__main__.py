"""``python -m planners.referee CERTIFICATE``: check a proof that no plan needs fewer bytes."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from pathlib import Path
from typing import Annotated

import typer

from planners.command_line import standard_output
from planners.command_line.typer_frame import CommandLine
from planners.errors import InvalidCertificateError, errors_at
from planners.files.formats import read_problem
from planners.files.json_file import read_json
from planners.files.problem_file import problem_digest
from planners.referee.certificate import Proven, check_certificate
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
            proven = check_certificate(read_json(certificate))
        if instance is not None:
            about, given = map(problem_digest, (proven.problem, read_problem(instance)))
            if about != given:
                raise InvalidCertificateError(f"it is about {about}, and {instance} is {given}")
    except InvalidCertificateError as error:
        standard_output.write(f"not proven: {one_line(str(error))}\n")
        raise typer.Exit(EXIT_NOT_PROVEN) from None
    standard_output.write(f"proven: {in_words(proven)}\n")


def in_words(proven: Proven) -> str:
    """Return one line on what a certificate proves."""
    name, capacity = one_line(proven.problem.name), proven.problem.capacity
    if proven.bound is None:
        said = f"{name} has no plan"
    else:
        said = f"no plan of {name} has a peak below {both_bytes(proven.bound)}"
        if capacity is not None and proven.bound > capacity:
            said += f", so none fits its capacity of {both_bytes(capacity)}"
        if proven.is_met:
            said += ", and a plan has this peak: it is optimal"
    return f"{said}; {problem_digest(proven.problem)}"


main = app.run

if __name__ == "__main__":
    main()
