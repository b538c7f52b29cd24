#!/usr/bin/env python3
"""Checks the layer rule: check_layers.py [ROOT]. Prints each breach as file:line and exits 1 where there is one."""

import pathlib
import sys

from sources import LAYERS, all_sources

WITHOUT_TORCH = LAYERS[: LAYERS.index("device")]
TORCH_PREFIXES = ("torch/", "ATen/", "c10/", "caffe2/")
CUDA_PREFIXES = ("cuda", "c10/cuda/", "ATen/cuda/", "cublas", "cudnn", "nccl")
# A layer that stands late in the list, but has no business with these all the same.
STRANGERS = {"checkpoint": {"model", "optim"}, "report": {"model", "optim", "batching"}}


def check_include(source, include):
    layer, target = source.layer, source.included_layer(include)
    if target is not None:
        if target not in LAYERS:
            return f'"{include.name}" is in no layer; the layers are {", ".join(LAYERS)}'
        if LAYERS.index(target) > LAYERS.index(layer):
            return f'layer {layer} includes "{include.name}" of the later layer {target}'
        if target in STRANGERS.get(layer, ()):
            return f'layer {layer} includes "{include.name}", but is to know nothing of {target}'
        if target != layer and ".." in include.name.split("/"):
            return f'"{include.name}" climbs into another layer: name it from include/ or src/'
    elif include.name.startswith(TORCH_PREFIXES) and layer in WITHOUT_TORCH:
        return f"layer {layer} includes <{include.name}>, but is to build without LibTorch"
    elif include.name.startswith(CUDA_PREFIXES) and "cuda" not in source.path.parts:
        return f"<{include.name}> outside a cuda/ folder: only the plugin may need CUDA's headers"
    return None


def check_place(source):
    """include/finetune/ has the folders of src/, and both only layers."""
    if source.layer not in LAYERS:
        return f"in no layer; the layers are {', '.join(LAYERS)}"
    if source.path.parts[0] == "include":
        folder = pathlib.Path("src", *source.path.parts[2:-1])
        return None if (source.root / folder).is_dir() else f"a public header, but there is no folder {folder}"
    return None


def breaches(root):
    for source in all_sources(root):
        problem = check_place(source)
        if problem:
            yield f"{source.path}: {problem}"
        if source.layer not in LAYERS:
            continue
        for include in source.includes():
            problem = check_include(source, include)
            if problem:
                yield f"{source.path}:{include.line}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = list(breaches(root))
    print("\n".join(found) if found else f"layers: {len(all_sources(root))} files, no breach")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
