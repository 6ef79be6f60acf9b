# The image of `accel`: a virtual environment on a base that has Python 3.11 or newer, nothing that builds, no root.
#
#     docker build -t accel-injector --build-arg VERSION="$(git describe --always)" .
#
# BUILD_BASE needs python3 with venv, pip and headers, and a C compiler, which compiles the core; BASE the same python3.
ARG BUILD_BASE=python:3.13-bookworm
ARG BASE=python:3.13-slim-bookworm

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# Everything that enters the image is named by hash. What builds our own package stays behind; the compiler reads the
# types of what we depend on, so it has that, too.
RUN python3 -m venv /build \
 && /build/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements-build.lock -r requirements.lock \
 && python3 -m venv --without-pip /opt/accel \
 && /build/bin/pip --python /opt/accel/bin/python install --quiet --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml setup.py README.md ./
COPY webhook webhook
COPY certs certs
RUN ACCEL_COMPILE=1 /build/bin/pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /build/bin/pip --python /opt/accel/bin/python install --quiet --no-cache-dir --no-deps /wheel/*.whl

FROM ${BASE}
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="accel-injector" \
      org.opencontainers.image.description="One annotation turns a Kubernetes workload into a TPU or GPU workload, at admission." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/accel /opt/accel
# Bytecode was written when the packages were installed; the root file system is read-only in a cluster.
ENV PATH=/opt/accel/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that runAsNonRoot can be checked without reading the image's /etc/passwd.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["accel"]
CMD ["serve"]
