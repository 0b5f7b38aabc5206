# weft in a container. PyTorch of the package index runs on a CPU and on an NVIDIA GPU; for a small image without CUDA, or for another
# CUDA, name an index of PyTorch's that has that build:
#   docker build -t weft .
#   docker build -t weft --build-arg TORCH_INDEX=URL .
#   docker run --rm -it -v "$PWD:/work" weft train gpt/text --data.path my.txt
#   docker run --rm -it -v "$PWD:/work" -p 8000:8000 weft serve runs/gpt-text --host 0.0.0.0 --api-key KEY
# With a GPU (NVIDIA's container toolkit on the host) add --gpus all; with --user "$(id -u):$(id -g)" what it writes is yours.
FROM python:3.11-slim

# kernels in C and Triton's launchers are compiled when first needed
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*

ARG TORCH_INDEX=""
WORKDIR /opt/weft
COPY constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[standard]'

# data and runs lie in the folder that is mounted here; HOME is where anybody may write, as the cache of compiled kernels lies there
WORKDIR /work
ENV HOME=/tmp
ENTRYPOINT ["weft"]
CMD ["--help"]
