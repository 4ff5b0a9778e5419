#!/usr/bin/env bash
# Puts nvcc, NVRTC and libclang into .cuda (or the directory given), from PyPI: no root, no GPU, about 600 MB.
#
#   scripts/install-nvcc.sh [DIRECTORY]
#
# build.rs finds nvcc in .cuda by itself (elsewhere: CUDA_HOME=DIRECTORY), tests find libnvrtc and libclang there.
# Needs python3 with pip or venv. A second run changes nothing.
set -euo pipefail
target=$(realpath -m "${1:-$(dirname "$0")/../.cuda}")
cd "$(dirname "$0")/.."

# nvvm and crt come with nvcc, which does not say of which release: a newer nvvm writes PTX that this ptxas refuses.
release=13.4
packages=("nvidia-cuda-nvcc==$release.*" "nvidia-nvvm==$release.*" "nvidia-cuda-crt==$release.*"
    "nvidia-cuda-runtime==$release.*" "nvidia-cuda-nvrtc==$release.*" "nvidia-cuda-cuobjdump==$release.*"
    "nvidia-cuda-nvdisasm==$release.*" "nvidia-cuda-cccl==13.*" "libclang==18.*")

fail() { printf 'install-nvcc: %s\n' "$*" >&2; exit 1; }

# The check is a real compilation.
works() {
    local scratch status=0
    scratch=$(mktemp -d)
    echo 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }' >"$scratch/check.cu"
    "$target/bin/nvcc" --cubin -arch=sm_80 -o "$scratch/check.cubin" "$scratch/check.cu" >"$scratch/log" 2>&1 || status=$?
    if [ "$status" = 0 ]; then [ -s "$scratch/check.cubin" ] || status=1; else problem=$(cat "$scratch/log"); fi
    rm -rf "$scratch"
    return "$status"
}

wanted="${packages[*]}"
problem=
if [ "$(cat "$target/.installed" 2>/dev/null)" = "$wanted" ] && works; then
    echo "install-nvcc: $target is complete: $("$target/bin/nvcc" --version | tail -n 2 | head -n 1)"
    exit 0
fi

command -v python3 >/dev/null || fail "python3 is not installed; it is needed to fetch packages from PyPI"
mkdir -p "$target"
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
else
    python3 -m venv "$target/venv" >/dev/null 2>&1 ||
        fail "python3 has neither pip nor venv; install one (Debian: apt install python3-pip)"
    pip=("$target/venv/bin/python" -m pip)
fi

rm -rf "$target/packages" "$target/bin" "$target/lib" "$target/.installed"
"${pip[@]}" install --quiet --no-warn-script-location --only-binary=:all: \
    --target "$target/packages" "${packages[@]}" ||
    fail "pip could not install ${packages[*]}; is the network there, and is this Linux on x86-64 or arm64?"

cuda=$(echo "$target"/packages/nvidia/cu[0-9]*)
[ -x "$cuda/bin/nvcc" ] || fail "the packages hold no nvcc (looked in $cuda/bin)"
mkdir -p "$target/bin" "$target/lib"
# nvcc finds the rest of itself relative to where it is called from, hence wrappers instead of links.
for tool in nvcc cuobjdump nvdisasm; do
    printf '#!/bin/sh\nexec "$(dirname "$0")/../packages/%s/bin/%s" "$@"\n' "nvidia/${cuda##*/}" "$tool" >"$target/bin/$tool"
    chmod +x "$target/bin/$tool"
done
for library in "$cuda"/lib/libnvrtc*.so* "$target"/packages/clang/native/libclang.so; do
    ln -s "../${library#"$target"/}" "$target/lib/"
done

works || fail "nvcc was installed and cannot compile:
$problem"
echo "$wanted" >"$target/.installed"
touch build.rs # cargo has to look for nvcc again
echo "install-nvcc: done, $("$target/bin/nvcc" --version | tail -n 2 | head -n 1)"
