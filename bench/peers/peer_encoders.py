"""The peers: how each is opened, at its best known setting, and encodes normalised pixels.

An opener gets the model file, the folder of peer_models.py and the number of threads, and returns a
function from float32 [n, 3, 224, 224] to rows of unit length [n, D]. Imported by peer_worker.py.
"""
import ctypes
import io
import os

import numpy as np

import peer_models
from peer_models import ROOT, path_of


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# -- flatclip, through its public calls -----------------------------------------------------------
class SessionOptions(ctypes.Structure):
    """The first members of flatclip_session_options; the library fills in the rest."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("max_batch", ctypes.c_int), ("threads", ctypes.c_int)]


def open_flatclip(model, folder, threads):
    library = ctypes.CDLL(os.path.join(ROOT, "build/libflatclip.so"))
    error = ctypes.create_string_buffer(512)  # flatclip_error: a status, then the message

    def check(status):
        if status:
            raise RuntimeError(error.raw[4:].split(b"\0")[0].decode())

    loaded, session = ctypes.c_void_p(), ctypes.c_void_p()
    options = SessionOptions(ctypes.sizeof(SessionOptions), 32, threads)
    check(library.flatclip_model_load(model.encode(), None, ctypes.byref(loaded), error))
    check(library.flatclip_session_create(loaded, ctypes.byref(options), ctypes.byref(session), error))
    dim = library.flatclip_model_embed_dim(loaded)

    def encode(pixels):
        rows = np.empty((len(pixels), dim), np.float32)
        check(library.flatclip_encode_pixels_f32(session, pixels.ctypes.data_as(ctypes.c_void_p),
                                                 ctypes.c_size_t(len(pixels)),
                                                 rows.ctypes.data_as(ctypes.c_void_p), None, error))
        return rows

    return encode


# -- PyTorch --------------------------------------------------------------------------------------
def run_torch(compute, threads, dtype=None):
    """compute under inference_mode; dtype is that of weights and pixels (not autocast, which is slower)."""
    import torch

    torch.set_num_threads(threads)

    def encode(pixels):
        with torch.inference_mode():
            rows = compute(torch.from_numpy(pixels).to(dtype)).float()
            return (rows / rows.norm(dim=1, keepdim=True)).numpy()

    return encode


def open_open_clip(model, folder, threads):
    return run_torch(peer_models.open_clip_model(model).encode_image, threads)


def open_open_clip_bf16(model, folder, threads):
    import torch

    return run_torch(peer_models.open_clip_model(model).bfloat16().encode_image, threads, torch.bfloat16)


def open_transformers(model, folder, threads):
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    tensors, c = peer_models.read_model(model)
    config = CLIPVisionConfig(hidden_size=c["vision_width"], intermediate_size=4 * c["vision_width"],
                              projection_dim=c["embed_dim"], num_hidden_layers=c["vision_layers"],
                              num_attention_heads=c["vision_heads"], image_size=c["image_size"],
                              patch_size=c["patch_size"], hidden_act="quick_gelu" if c["quick"] else "gelu")
    module = CLIPVisionModelWithProjection(config).eval()
    state = {k: torch.from_numpy(v) for k, v in peer_models.hugging_face(tensors, c).items()}
    lacking = [k for k in module.load_state_dict(state, strict=False).missing_keys if "position_ids" not in k]
    if lacking:
        raise RuntimeError(f"no weights for {lacking[:3]}")
    return run_torch(lambda x: module(x).image_embeds, threads)


# -- ONNX Runtime and OpenVINO --------------------------------------------------------------------
def run_onnx(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda inputs: session.run(None, {name: inputs})[0]


def open_onnx(model, folder, threads):
    return run_onnx(path_of(folder, "onnx"), threads)


def open_onnx_int8(model, folder, threads):
    return run_onnx(path_of(folder, "onnx-int8"), threads)


def run_openvino(path, threads, precision):
    """precision is a hint that must be given: without one, bf16 is taken where the CPU has it."""
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {
        "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False})
    request = compiled.create_infer_request()
    return lambda pixels: request.infer({0: pixels}, share_inputs=True)[0].copy()


def open_openvino(model, folder, threads):
    return run_openvino(path_of(folder, "onnx"), threads, "f32")


def open_openvino_bf16(model, folder, threads):
    return run_openvino(path_of(folder, "onnx"), threads, "bf16")


def open_openvino_int8(model, folder, threads):
    return run_openvino(path_of(folder, "openvino-int8"), threads, "f32")


# -- faster-clip and clip.cpp ---------------------------------------------------------------------
def open_faster_clip(model, folder, threads):
    """It takes encoded pictures only: PNGs of the pixels, which it decodes each time."""
    os.environ["FASTER_CLIP_CACHE"], os.environ["RAYON_NUM_THREADS"] = folder, str(threads)
    import faster_clip
    from PIL import Image

    config = peer_models.read_config(model)
    engine, known = faster_clip.ClipModel(), {}

    def png(pixels):
        picture = io.BytesIO()
        bytes_ = (pixels.transpose(1, 2, 0) * config["std"] + config["mean"]) * 255
        Image.fromarray(np.clip(np.rint(bytes_), 0, 255).astype(np.uint8)).save(picture, "PNG", compress_level=0)
        return picture.getvalue()

    def encode(pixels):
        key = (len(pixels), pixels.ctypes.data)
        if key not in known:
            known[key] = [png(p) for p in pixels]
        return unit(np.asarray(engine.encode_image(known[key]), np.float32))

    return encode


class ImageF32(ctypes.Structure):
    _fields_ = [("nx", ctypes.c_int), ("ny", ctypes.c_int), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class ImageBatch(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ImageF32)), ("size", ctypes.c_size_t)]


def open_clip_cpp(model, folder, threads):
    """Four images a call at most: more do not fit its scratch buffer."""
    import clip_cpp

    library = clip_cpp.clip.clip_lib
    context = clip_cpp.clip.clip_model_load(path_of(folder, "gguf").encode(), 0)
    if not context:
        raise RuntimeError("the GGUF file was not loaded")
    dim = peer_models.read_config(model)["embed_dim"]
    library.clip_image_batch_encode.restype = ctypes.c_bool

    def encode_four(pixels):
        rows = np.empty((len(pixels), dim), np.float32)
        images = (ImageF32 * len(pixels))(*(ImageF32(224, 224, p.ctypes.data, p.size) for p in pixels))
        batch = ImageBatch(images, len(pixels))
        if not library.clip_image_batch_encode(context, threads, ctypes.byref(batch),
                                               rows.ctypes.data_as(ctypes.c_void_p), ctypes.c_bool(True)):
            raise RuntimeError("clip_image_batch_encode failed")
        return rows

    def encode(pixels):
        interleaved = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        return np.concatenate([encode_four(interleaved[i:i + 4]) for i in range(0, len(pixels), 4)])

    return encode


# -- Text: flatclip has no text tower yet -----------------------------------------------------------
def open_open_clip_text(model, folder, threads):
    return run_torch(peer_models.open_clip_model(model).encode_text, threads)


def open_onnx_text(model, folder, threads):
    return run_onnx(path_of(folder, "onnx-text"), threads)


TEXT_PEERS = {
    "open_clip-text": ("PyTorch, open_clip", "fp32", [], open_open_clip_text),
    "onnx-text": ("ONNX Runtime", "fp32", ["onnx-text"], open_onnx_text),
}

PEERS = {  # name: (title, precision, kinds of files it needs, opener)
    "flatclip": ("flatclip", "fp32", [], open_flatclip),
    "open_clip": ("PyTorch, open_clip", "fp32", [], open_open_clip),
    "transformers": ("PyTorch, transformers", "fp32", [], open_transformers),
    "onnx": ("ONNX Runtime", "fp32", ["onnx"], open_onnx),
    "openvino": ("OpenVINO, hint f32", "fp32", ["onnx"], open_openvino),
    "clip-cpp": ("clip-cpp, f16 weights", "f16", ["gguf"], open_clip_cpp),
    "faster-clip": ("faster-clip, int8 weights", "fp32", ["hugging-face"], open_faster_clip),
    "open_clip-bf16": ("PyTorch, open_clip, bf16 weights", "bf16", [], open_open_clip_bf16),
    "openvino-bf16": ("OpenVINO, hint bf16", "bf16", ["onnx"], open_openvino_bf16),
    "onnx-int8": ("ONNX Runtime, dynamic int8", "int8", ["onnx-int8"], open_onnx_int8),
    "openvino-int8": ("OpenVINO, post-training int8", "int8", ["openvino-int8"], open_openvino_int8),
}
