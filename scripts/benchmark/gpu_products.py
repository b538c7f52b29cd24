"""Seconds that the matrix products of one training step of BERT-base take on the GPU in bf16: gpu_products.py TOKENS

Forward, gradient of the activations and gradient of the weight of each linear layer, by torch, in one stretch of CUDA's clock.
"""

import sys

import torch

HIDDEN, INTERMEDIATE, LAYERS, REPEATS = 768, 3072, 12, 20


def main():
    tokens = int(sys.argv[1])
    layers = []
    for outputs, inputs in [(3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE)] * LAYERS:
        layers.append([torch.randn(shape, device="cuda", dtype=torch.bfloat16)
                       for shape in ((tokens, inputs), (outputs, inputs), (tokens, outputs))])

    def step():
        for x, weight, grad in layers:
            x @ weight.t()
            grad @ weight
            grad.t() @ x

    for _ in range(3):
        step()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(REPEATS):
        step()
    end.record()
    torch.cuda.synchronize()
    print(start.elapsed_time(end) / 1000 / REPEATS)


main()
