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

# The servers of the platform, behind the names that operators call them by: `/model-registry proxy`, `/model-registry catalog`.
# They need nothing of the plane. `make servers-image` builds it.
FROM ${PYTHON} AS servers-build
COPY src/modelyard/local/images/locks/model-registry.txt /model-registry.lock
RUN python -m venv /app && /app/bin/pip install --no-cache-dir --require-hashes -r /model-registry.lock
COPY src/modelyard/programs /app/modelyard/programs
RUN printf '#!/bin/sh\nexec /app/bin/python -I /app/modelyard/programs/__main__.py "$@"\n' > /model-registry \
    && chmod 0755 /model-registry && /app/bin/python -m compileall -q /app

FROM ${PYTHON} AS servers
ARG PYTHON
ARG VERSION
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Modelyard servers" \
      org.opencontainers.image.description="The REST servers of the model registry and the model catalog" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${PYTHON}"
COPY --from=servers-build /app /app
COPY --from=servers-build /model-registry /model-registry
# The sample lists, where the catalog's init containers look for lists in an image.
COPY src/modelyard/programs/catalog/samples/data /app/data
COPY src/modelyard/programs/catalog/samples/benchmarks /app/benchmarks
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/model-registry"]
CMD ["proxy"]

FROM ${PYTHON} AS plane
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
