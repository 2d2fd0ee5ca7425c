#!/usr/bin/env python3
"""Makes tests/data/vision: small pictures of every kind that is read, and what Pillow makes of them (decoded and resized).

Needs: pip install "pillow<12" numpy safetensors. From version 13 on, Pillow takes the two directions in an order of its own; the last bit of
some pixels then differs from what the preprocessors of the models were used to.
"""
import os
import sys

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/data/vision")
SIZES = [(32, 32), (7, 5), (61, 9), (90, 70), (1, 1), (45, 31), (200, 3)]


def main():
    os.makedirs(OUT, exist_ok=True)
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:31, 0:45]
    smooth = np.stack([x * 5 % 256, y * 8 % 256, (x + y) * 3 % 256], -1).astype(np.uint8)
    noise = rng.integers(0, 256, (31, 45, 3), dtype=np.uint8)
    rgb = np.where((x // 9 + y // 7)[..., None] % 2, smooth, noise).astype(np.uint8)
    alpha = np.dstack([rgb, (x * 6 % 256).astype(np.uint8)])
    pictures = {
        "rgb.png": Image.fromarray(rgb),
        "gray.png": Image.fromarray(rgb[..., 0]),
        "palette.png": Image.fromarray(smooth).quantize(32),
        "opaque.png": Image.fromarray(np.dstack([rgb, np.full((31, 45), 255, np.uint8)])),
        "rgb.ppm": Image.fromarray(rgb),
        "gray.pgm": Image.fromarray(rgb[..., 0]),
        "smooth.jpg": Image.fromarray(smooth),
        "gray.jpg": Image.fromarray(smooth[..., 0]),
    }
    golden = {}
    for name, picture in pictures.items():
        path = os.path.join(OUT, name)
        if name.endswith(".jpg"):
            picture.save(path, quality=92)
        else:
            picture.save(path)
        golden[name] = np.asarray(Image.open(path).convert("RGB")).copy()
    Image.fromarray(alpha).save(os.path.join(OUT, "alpha.png"))
    for width, height in SIZES:
        for name, source in (("rgb.png", rgb), ("smooth.jpg", golden["smooth.jpg"])):
            resized = Image.fromarray(source).resize((width, height), Image.Resampling.BICUBIC)
            golden[f"{name}.{width}x{height}"] = np.asarray(resized).copy()
    save_file(golden, os.path.join(OUT, "golden.safetensors"))


if __name__ == "__main__":
    main()
