# The image of `stowplan serve`: one virtual environment, one warm kernel cache, no compiler, no root.
# BASE may name a mirror of the same image; both stages must use one and the same.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
# The build needs the network once, for the packages that the lock files name by hash.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
WORKDIR /opt/stowplan

# Dependencies first: this layer changes only with the lock.
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN python -m venv builder && python -m venv --without-pip env
RUN builder/bin/python -m pip install --require-hashes --only-binary :all: \
        --requirement requirements/build.txt
RUN python -m pip --python env install --require-hashes --only-binary :all: \
        --requirement requirements/runtime.txt

COPY LICENSE README.md pyproject.toml source/
COPY extender source/extender
COPY stowplan source/stowplan
RUN builder/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist ./source \
    && python -m pip --python env install --no-deps dist/*.whl

# Compiled code is kept per processor model; the generic one lets a cache that was made on the build
# machine serve on every node of its architecture. It costs the kernels the wider vector units.
ENV NUMBA_CPU_NAME=generic STOWPLAN_KERNEL_CACHE=/opt/stowplan/kernels
RUN env/bin/python -m stowplan.topology.jit


FROM ${BASE}
# The same paths as in the build: scripts and the kernel cache know where they stand.
COPY --from=build /opt/stowplan/env /opt/stowplan/env
COPY --from=build /opt/stowplan/kernels /opt/stowplan/kernels
# As in the build, or the cache would not be found.
ENV NUMBA_CPU_NAME=generic STOWPLAN_KERNEL_CACHE=/opt/stowplan/kernels
# The root file system may be read-only, so nothing may be written beside the code.
ENV PATH=/opt/stowplan/env/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
# The only place that is written: numba wants a writable cache, so the warm one is copied here.
VOLUME /tmp
WORKDIR /tmp
# By number: Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
EXPOSE 8888
ENTRYPOINT ["stowplan"]
CMD ["serve"]
