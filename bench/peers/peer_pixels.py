"""A JPEG's bytes to CLIP's pixels, 224 x 224: each library as its users call it, on one thread. Every
function gets the bytes and returns uint8 [224, 224, 3]. Run by bench_peers.py:

    peer_pixels.py NAME FILE SECONDS    prints one JSON object: median milliseconds, largest difference
                                        of a pixel to Pillow's, and their mean
"""
import io
import json
import statistics
import sys
import time

import numpy as np

from peer_models import recipe

KEPT = {}


def by_pillow(data):
    from PIL import Image

    return recipe(Image.open(io.BytesIO(data)))


def by_torchvision(data):
    """As open_clip's transform has it: Pillow's resizing."""
    from PIL import Image
    from torchvision.transforms import v2

    steps = v2.Compose([v2.Resize(224, v2.InterpolationMode.BICUBIC), v2.CenterCrop(224)])
    return np.asarray(steps(Image.open(io.BytesIO(data)).convert("RGB")))


def by_torchvision_tensor(data):
    """The same on tensors, with antialiasing."""
    import torch
    from torchvision.io import decode_jpeg
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    steps = v2.Compose([v2.Resize(224, v2.InterpolationMode.BICUBIC, antialias=True), v2.CenterCrop(224)])
    pixels = steps(decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)))
    return pixels.permute(1, 2, 0).numpy()


def by_opencv(data):
    """Area averaging, its only filter that does not alias; other pixels than CLIP's."""
    import cv2

    cv2.setNumThreads(1)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    h, w = image.shape[:2]
    size = (224, int(224 * h / w)) if w <= h else (int(224 * w / h), 224)
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    top, left = (image.shape[0] - 224) // 2, (image.shape[1] - 224) // 2
    return cv2.cvtColor(image[top:top + 224, left:left + 224], cv2.COLOR_BGR2RGB)


def by_libvips(data):
    """Its thumbnailer, which lets libjpeg shrink while decoding; other pixels than CLIP's."""
    import pyvips

    image = pyvips.Image.thumbnail_buffer(data, 224, height=224, crop="centre")
    return np.ndarray(buffer=image.write_to_memory(), dtype=np.uint8, shape=(224, 224, image.bands))


CLIP_CONFIG = {
    "image_processor_type": "CLIPImageProcessor", "do_resize": True, "size": {"shortest_edge": 224},
    "resample": 3, "do_center_crop": True, "crop_size": {"height": 224, "width": 224},
    "do_rescale": False, "do_normalize": False, "do_convert_rgb": True,
}


def by_hf_processors(data):
    """Hugging Face's CLIP processor in Rust; one is kept, as users keep theirs."""
    import hf_processors_rs

    if "processor" not in KEPT:
        KEPT["processor"] = hf_processors_rs.AutoImageProcessor.from_dict(CLIP_CONFIG)
    pixels = KEPT["processor"](data, num_threads=1)[0]
    return np.rint(pixels.transpose(1, 2, 0)).astype(np.uint8)


PEERS = {
    "pillow": ("Pillow", by_pillow),
    "torchvision": ("torchvision on Pillow's image", by_torchvision),
    "torchvision-tensor": ("torchvision on tensors", by_torchvision_tensor),
    "opencv": ("OpenCV, area", by_opencv),
    "libvips": ("libvips, thumbnail", by_libvips),
    "hf-processors": ("hf-processors-rs", by_hf_processors),
}


def main(name, path, seconds):
    with open(path, "rb") as file:
        data = file.read()
    work, calls = PEERS[name][1], []
    gap = np.abs(work(data)[..., :3].astype(int) - by_pillow(data))
    while len(calls) < 3 or sum(calls) < float(seconds):
        start = time.perf_counter()
        work(data)
        calls.append(time.perf_counter() - start)
    print(json.dumps({"ms": 1e3 * statistics.median(calls), "largest": int(gap.max()), "mean": float(gap.mean())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
