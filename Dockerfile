# GPU by default: torch's own wheels carry CUDA; the host needs the NVIDIA container runtime and a driver for that CUDA.
#   docker build -t intarsia .
#   docker run --gpus all --stop-timeout 50 -p 8000:8000 -v intarsia-models:/models intarsia \
#       Qwen/Qwen2.5-VL-3B-Instruct --device cuda
# Drivers older than 580 have no CUDA 13, for which torch on PyPI is built; its index has builds for older ones:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126 -t intarsia .
# CPU only:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu -t intarsia:cpu .
FROM python:3.12-slim-bookworm

ARG TORCH_INDEX=https://pypi.org/simple
ARG TORCH=torch>=2.11

# A compiler, since kernels are built for the machine they run on: Triton's on a GPU, C on a CPU.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ libgomp1 \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 intarsia \
    && install --directory --owner=intarsia --group=intarsia /models

# torch first and alone: the largest layer, and the one that changes least. Versions are ranges in pyproject.toml.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --index-url "${TORCH_INDEX}" "${TORCH}"

WORKDIR /opt/intarsia
COPY pyproject.toml README.md LICENSE ./
COPY kvcache kvcache
COPY models models
COPY engine engine
COPY server server
COPY benchmarks benchmarks
RUN pip install --no-cache-dir /opt/intarsia[av]

USER 1000
WORKDIR /home/intarsia
ENV HF_HOME=/models \
    XDG_CACHE_HOME=/models/cache \
    TRITON_CACHE_DIR=/models/cache/triton \
    INTARSIA_HOST=0.0.0.0 \
    PYTHONUNBUFFERED=1
VOLUME /models
EXPOSE 8000

# Another port inside is INTARSIA_PORT's, which this asks for; --port would pass it by.
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ.get('INTARSIA_PORT', '8000') + '/ready', timeout=2)"]

ENTRYPOINT ["intarsia", "serve"]
