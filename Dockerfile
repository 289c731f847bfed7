# The plane as an image: runs as a user without rights, and needs no writable file system but /tmp.
# Base images are arguments, so that a mirror can be used: --build-arg PYTHON=REGISTRY/python:3.12-slim
ARG PYTHON=python:3.12-slim

FROM ${PYTHON} AS build
WORKDIR /src
RUN python -m venv /app && pip install --no-cache-dir "hatchling>=1.27" build
COPY requirements-runtime.lock ./
RUN /app/bin/pip install --no-cache-dir --require-hashes -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m build --wheel --no-isolation --outdir /dist . \
    && /app/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
    && /app/bin/python -m compileall -q /app

FROM ${PYTHON}
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["modelyard"]
CMD ["run", "--lease", "--health-host=0.0.0.0"]
