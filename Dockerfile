# The plane as an image: runs as a user without rights, and needs no writable file system but /tmp. `make image` builds it.
# The base is pinned by digest, so that the same source gives the same image; `make base-image` asks the registry for the newest
# digest of the tag and writes it here. For a mirror: --build-arg PYTHON=REGISTRY/python:3.12-slim@sha256:...
ARG PYTHON=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

FROM ${PYTHON} AS build
WORKDIR /src
COPY requirements-runtime.lock tools/build.lock ./
# What builds the wheel stays in an environment of its own, and out of the image.
RUN python -m venv /builder && /builder/bin/pip install --no-cache-dir --require-hashes -r build.lock \
    && python -m venv /app && /app/bin/pip install --no-cache-dir --require-hashes -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY tools/version.py tools/version.py
COPY examples ./examples
COPY src ./src
# There is no git here, which would know the version.
ARG VERSION
RUN MODELYARD_VERSION="${VERSION:?say --build-arg VERSION=..., or build with make image}" \
    /builder/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
    && /app/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
    && /app/bin/python -m compileall -q /app

FROM ${PYTHON}
ARG PYTHON
ARG VERSION
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Modelyard" \
      org.opencontainers.image.description="An ML platform's control plane for Kubernetes, from a laptop to a cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${PYTHON}"
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["modelyard"]
CMD ["run", "--lease", "--health-host=0.0.0.0"]
