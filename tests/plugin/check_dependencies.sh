#!/usr/bin/env bash
# check_dependencies.sh BINARY PLUGIN: the plugin asks for the CUDA libraries, the binary does not, and all that either asks
# for is found.
set -euo pipefail
binary=$1 plugin=$2 failed=no

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
complain() { echo "$*"; failed=yes; }

for library in libtorch_cuda.so libc10_cuda.so libcudart.so; do
  needed "$plugin" | grep -q "^$library" || complain "$plugin does not depend on $library"
done
for library in libtorch_cpu.so libc10.so; do
  needed "$binary" | grep -q "^$library" || complain "$binary does not depend on $library"
done
if needed "$binary" | grep -E 'cuda|cublas|cudnn|nccl|libtorch\.so'; then
  complain "$binary depends on the CUDA libraries above; only the plugin may"
fi
for file in "$binary" "$plugin"; do
  if ldd "$file" | grep 'not found'; then complain "$file: the libraries above are not found"; fi
done
[ "$failed" = no ]
echo "dependencies as they should be"
