"""How far our numbers may be from the reference's: in float32, with dropout 0. The one table of the parity tests.

`logits` and `loss`: the largest difference. `gradients`: the largest difference of a gradient, over the largest gradient of the
model (that of a key's bias is zero in theory and noise in practice). `ten steps`: the largest difference of a loss on the way,
and of the logits after ten AdamW updates, which divide small gradients by their own size and so enlarge differences.
"""

MEASURES = {
    "logits": 1e-5,
    "loss": 1e-5,
    "gradients": 1e-5,
    "ten steps, losses": 1e-5,
    "ten steps, logits": 1e-4,
}
