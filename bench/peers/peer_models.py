#!/usr/bin/env python3
"""The files that the peers read, each made from one flatclip model file, so that all have the same
weights; and the pictures that they are checked on. Run by bench_peers.py, one kind a process:

    peer_models.py MODEL.safetensors FOLDER KIND
"""
import glob
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PICTURES = os.path.join(ROOT, "tests/data/images/good/*.jpg")
CHECKED = 8  # pictures


def read_config(path):
    """The numbers of the configuration, without a look at the weights."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        meta = file.metadata()
    config = {key: int(value) for key, value in meta.items() if value.isdigit()}
    config["mean"], config["std"] = ([float(word) for word in meta[key].split()] for key in ("mean", "std"))
    config["quick"] = meta["activation"] == "quickgelu"
    return config


def read_model(path):
    """The tensors as numpy arrays, and the configuration."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    return tensors, read_config(path)


def recipe(image):
    """CLIP's resize and crop with Pillow: uint8 [224, 224, 3]."""
    from PIL import Image

    w, h = image.size
    size = (224, int(224 * h / w)) if w <= h else (int(224 * w / h), 224)
    image = image.resize(size, Image.BICUBIC)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    return np.asarray(image.crop((left, top, left + 224, top + 224)).convert("RGB"))


def normalise(pixels, config):
    """uint8 [n, S, S, 3] -> float32 [n, 3, S, S]."""
    scaled = (np.asarray(pixels, np.float32) / 255 - np.float32(config["mean"])) / np.float32(config["std"])
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2), np.float32)


def open_clip_model(path):
    """open_clip's model of the file's shape, with its weights; every image tensor accounted for."""
    import open_clip
    import torch

    tensors, c = read_model(path)
    vision = {"image_size": c["image_size"], "patch_size": c["patch_size"], "width": c["vision_width"],
              "layers": c["vision_layers"], "head_width": c["vision_width"] // c["vision_heads"]}
    text = {"context_length": c["context_length"], "vocab_size": c["vocab_size"], "width": c["text_width"],
            "heads": c["text_heads"], "layers": c["text_layers"]}
    model = open_clip.CLIP(c["embed_dim"], vision, text, quick_gelu=c["quick"])
    theirs = model.state_dict()
    missing = [name for name in theirs if name.startswith("visual.") and name not in tensors]
    if missing:
        sys.exit(f"{path} lacks {missing}")
    model.load_state_dict({name: torch.from_numpy(tensors[name]).reshape(value.shape)
                           for name, value in theirs.items() if name in tensors}, strict=False)
    return model.eval()


def hugging_face(tensors, config):
    """The image tower under the names of transformers."""
    out = {"vision_model.embeddings.class_embedding": tensors["visual.class_embedding"],
           "vision_model.embeddings.position_embedding.weight": tensors["visual.positional_embedding"],
           "vision_model.embeddings.patch_embedding.weight": tensors["visual.conv1.weight"],
           "visual_projection.weight": np.ascontiguousarray(tensors["visual.proj"].T)}
    pairs = {"visual.ln_pre": "vision_model.pre_layrnorm", "visual.ln_post": "vision_model.post_layernorm"}
    for i in range(config["vision_layers"]):
        ours, theirs = f"visual.transformer.resblocks.{i}.", f"vision_model.encoder.layers.{i}."
        for a, b in (("ln_1", "layer_norm1"), ("ln_2", "layer_norm2"), ("attn.out_proj", "self_attn.out_proj"),
                     ("mlp.c_fc", "mlp.fc1"), ("mlp.c_proj", "mlp.fc2")):
            pairs[ours + a] = theirs + b
        for kind in ("weight", "bias"):
            for name, part in zip("qkv", np.split(tensors[f"{ours}attn.in_proj_{kind}"], 3)):
                out[f"{theirs}self_attn.{name}_proj.{kind}"] = np.ascontiguousarray(part)
    for a, b in pairs.items():
        for kind in ("weight", "bias"):
            out[f"{b}.{kind}"] = tensors[f"{a}.{kind}"]
    return out


# -- One function a kind: (model file, path to write) ---------------------------------------------
def make_pixels(path, out):
    """Photographs as every peer will see them, float32 [CHECKED, 3, 224, 224]."""
    from PIL import Image

    pictures = [recipe(Image.open(name)) for name in sorted(glob.glob(PICTURES))[:CHECKED]]
    np.save(out, normalise(pictures, read_model(path)[1]))


def export(path, out, tower, example):
    """A tower and the division by the length, any batch, by torch's own exporter."""
    import torch

    class Unit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = open_clip_model(path)

        def forward(self, inputs):
            rows = getattr(self.model, tower)(inputs)
            return rows / rows.norm(dim=1, keepdim=True)

    torch.onnx.export(Unit(), (example,), out, input_names=["inputs"], output_names=["rows"],
                      dynamic_axes={"inputs": {0: "n"}, "rows": {0: "n"}}, opset_version=17, dynamo=False)


def make_onnx(path, out):
    import torch

    export(path, out, "encode_image", torch.rand(2, 3, 224, 224))


def make_onnx_text(path, out):
    import torch

    export(path, out, "encode_text", torch.randint(1, 49406, (2, 77)))


def make_onnx_int8(path, out):
    """Dynamic quantisation: weights int8 a column, activations at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(os.path.join(os.path.dirname(out), "image.onnx"), out, weight_type=QuantType.QInt8,
                     per_channel=True, op_types_to_quantize=["MatMul", "Gemm"])


def make_openvino_int8(path, out):
    """OpenVINO's post-training quantisation, calibrated on the photographs and their mirror images."""
    import nncf
    import openvino

    folder = os.path.dirname(out)
    pixels = np.load(os.path.join(folder, "pixels.npy"))
    samples = [p[None] for p in np.concatenate([pixels, pixels[..., ::-1], pixels[:, :, ::-1]])]
    model = openvino.Core().read_model(os.path.join(folder, "image.onnx"))
    small = nncf.quantize(model, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER,
                          subset_size=len(samples))
    openvino.save_model(small, out, compress_to_fp16=False)


def make_hugging_face(path, out):
    """A file as transformers and faster-clip have it."""
    from safetensors.numpy import save_file

    os.makedirs(os.path.dirname(out), exist_ok=True)
    save_file(hugging_face(*read_model(path)), out)


def gguf_name(name):
    """clip.cpp's name of a tensor of transformers."""
    for a, b in (("vision_model", "v"), ("encoder.layers", "blk"), ("embeddings.", ""), ("self_attn.", "attn_"),
                 ("layer_norm", "ln"), ("layernorm", "ln"), ("layrnorm", "ln"), ("mlp.fc1", "ffn_down"),
                 ("mlp.fc2", "ffn_up"), ("embedding", "embd")):
        name = name.replace(a, b)
    return name if "projection" in name else name.replace("_proj", "")


def make_gguf(path, out):
    """clip.cpp's file: matrices and the patch kernel fp16, the rest fp32."""
    from gguf import GGUFWriter

    tensors, c = read_model(path)
    file = GGUFWriter(out, "clip")
    file.add_bool("clip.has_text_encoder", False)
    file.add_bool("clip.has_vision_encoder", True)
    file.add_file_type(1)
    file.add_name("flatclip synthetic")
    file.add_description("vision-only CLIP model")
    for key, value in (("image_size", c["image_size"]), ("patch_size", c["patch_size"]),
                       ("embedding_length", c["vision_width"]), ("feed_forward_length", 4 * c["vision_width"]),
                       ("projection_dim", c["embed_dim"]), ("attention.head_count", c["vision_heads"]),
                       ("block_count", c["vision_layers"])):
        file.add_uint32("clip.vision." + key, value)
    file.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    file.add_array("clip.vision.image_mean", c["mean"])
    file.add_array("clip.vision.image_std", c["std"])
    file.add_bool("clip.use_gelu", not c["quick"])
    for name, value in hugging_face(tensors, c).items():
        half = value.ndim == 4 or (value.ndim == 2 and name.endswith(".weight"))
        file.add_tensor(gguf_name(name), value.squeeze().astype(np.float16 if half else np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


KINDS = {  # kind: (file below the folder, function), each after what it needs
    "pixels": ("pixels.npy", make_pixels),
    "onnx": ("image.onnx", make_onnx),
    "onnx-text": ("text.onnx", make_onnx_text),
    "onnx-int8": ("image-int8.onnx", make_onnx_int8),
    "openvino-int8": ("image-int8.xml", make_openvino_int8),
    "hugging-face": ("sentence-transformers__clip-ViT-B-32/0_CLIPModel/model.safetensors", make_hugging_face),
    "gguf": ("image-f16.gguf", make_gguf),
}


def path_of(folder, kind):
    return os.path.join(folder, KINDS[kind][0])


if __name__ == "__main__":
    KINDS[sys.argv[3]][1](sys.argv[1], path_of(sys.argv[2], sys.argv[3]))
