#!/usr/bin/env python3
"""Plants known bugs into copies of the kernels, one at a time; each must be found.

    plant_bugs.py BUILD_DIR [NAME...]     CXX, FLAGS and WATCH from the environment (make planted-bugs)

A bug is one replacement in one file. It is found if the emulator's tests fail, and if the finding has
the word that is expected of it: "RACE", "OUT OF BOUNDS", or "expected" where numbers are wrong.
Prints a table; exits 1 if one was missed, or a replacement no longer fits its file.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

# name, file, what stands there, the bug, tests that run, the word expected in the finding
BUGS = [
    ("layernorm: rows beyond the last", "layernorm.cu", "    if (r >= rows)\n        return;\n    warp_row<VECTORS> row;\n    load_row(row, in",
     "    warp_row<VECTORS> row;\n    load_row(row, in", "layernorm_equals", "OUT OF BOUNDS"),
    ("layernorm: columns beyond the last", "device/row_norm.cuh", "return 128 * vector + 4 * lane() < width;",
     "return 128 * vector + 4 * lane() <= width;", "layernorm_equals", "UNINITIALISED|OUT OF BOUNDS"),
    ("layernorm: sign of epsilon", "device/row_norm.cuh", "inverse_width), 1e-5f)", "inverse_width), -1e-5f)",
     "layernorm_keeps", "expected"),
    ("layernorm: epsilon missing", "device/row_norm.cuh", "inverse_width), 1e-5f)", "inverse_width), 0.0f)",
     "layernorm_keeps", "expected"),
    ("layernorm: one lane left out", "device/device.cuh", "for (int distance = WARP / 2; distance; distance /= 2)\n        value = add",
     "for (int distance = WARP / 2; distance > 1; distance /= 2)\n        value = add", "layernorm_equals", "expected"),
    ("tokens: position of the next", "layernorm.cu", "(size_t)token * (size_t)width", "(size_t)(token + 1) * (size_t)width",
     "tokens", "expected|OUT OF BOUNDS"),
    ("tokens: class token not placed", "layernorm.cu", "token ? x + (size_t)r * stride : class_token", "x + (size_t)r * stride",
     "tokens", "UNINITIALISED"),
    ("gather: one chunk too many", "layernorm.cu", "i < bytes; i += 16 * 256", "i <= bytes; i += 16 * 256", "gathered",
     "OUT OF BOUNDS|UNINITIALISED"),
    ("product: wait left out", "device/product.cuh", "        copy_wait<STAGES - 2>();\n", "", "every_tile_mul",
     "under way|UNINITIALISED"),
    ("product: wait one group too lax", "device/product.cuh", "copy_wait<STAGES - 2>();", "copy_wait<STAGES - 1>();", "every_tile_mul",
     "under way"),
    ("product: barrier left out", "device/product.cuh", "        __syncthreads(); /* stage s is there for all, and all have left stage s - 1 */\n",
     "", "every_tile_mul", "RACE|UNINITIALISED|under way"),
    ("product: last wait left out", "device/product.cuh", "    copy_wait<0>();\n\n#pragma", "\n#pragma", "every_tile_mul",
     "ends with asynchronous copies"),
    ("product: rows not masked", "device/sources.cuh", "        const bool present = row < rows;\n        copy_async",
     "        const bool present = true;\n        copy_async", "every_tile_mul", "OUT OF BOUNDS"),
    ("product: columns not masked", "device/product.cuh", "const bool present = n0 + i / 4 < columns;", "const bool present = true;",
     "every_tile_mul", "OUT OF BOUNDS"),
    ("product: stored rows not masked", "device/product.cuh", "if (m < rows && n < columns)\n                    epilogue",
     "if (n < columns)\n                    epilogue", "every_tile_mul", "OUT OF BOUNDS|UNINITIALISED|expected|gap"),
    ("product: stored columns not masked", "device/product.cuh", "if (m < rows && n < columns)\n                    epilogue",
     "if (m < rows)\n                    epilogue", "every_tile_mul", "OUT OF BOUNDS|expected|gap"),
    ("product: tiles overlap", "device/product.cuh", "const int m0 = (int)blockIdx.y * Tile::ROWS, n0",
     "const int m0 = (int)blockIdx.y * (Tile::ROWS - 2), n0", "every_tile_mul", "RACE|expected|UNINITIALISED"),
    ("product: halves of b swapped", "device/product.cuh", "multiply_add(sum[i][2 * j], a[i], b[j][0], b[j][1], T());",
     "multiply_add(sum[i][2 * j], a[i], b[j][1], b[j][0], T());", "every_tile_mul", "expected"),
    ("product: places of chunks differ", "device/product.cuh", "load_matrices(b[j], w + chunk_at(", "load_matrices(b[j], w + K_STAGE * 0 + chunk_at(1 + ",
     "every_tile_mul", "expected|OUT OF BOUNDS|UNINITIALISED"),
    ("product: a lane ends early", "device/product.cuh", "        copy_commit();\n        multiply_stage", "        copy_commit();\n        if (s == 1 && threadIdx.x == 37)\n            return;\n        multiply_stage",
     "every_tile_mul", "ended|ends with"),
    ("finish: columns beyond the last", "finish.cu", "if (n >= columns)", "if (n > columns)", "finishes",
     "OUT OF BOUNDS|UNINITIALISED|gap"),
    ("finish: columns of the next row", "finish.cu", "m = (int)blockIdx.x;", "m = (int)blockIdx.x + 1;", "finishes",
     "OUT OF BOUNDS|expected"),
    ("product: bias of the next column", "device/epilogues.cuh", "            a = add(a, bias[n]);\n            b = add(b, bias[n + 1]);\n        }\n        store2",
     "            a = add(a, bias[n + 1]);\n            b = add(b, bias[n]);\n        }\n        store2", "every_tile_mul", "expected"),
    ("product: misaligned store", "device/epilogues.cuh", "store2(out + (size_t)m * stride + (size_t)n, activate", "store2(out + (size_t)m * stride + (size_t)n + 1, activate",
     "every_tile_mul", "MISALIGNED"),
    ("product: residual read late", "device/epilogues.cuh", "*at = make_float2(add(before.x, a), add(before.y, b));", "*at = make_float2(a, b);",
     "residual", "expected"),
    ("quick gelu: wrong factor", "device/epilogues.cuh", "-1.702f", "-1.71f", "activations", "expected"),
    ("gelu: the tanh approximation", "device/epilogues.cuh", "erff(multiply(x, 0.70710678118654752f))",
     "tanhf(0.79788456f * (x + 0.044715f * x * x * x))", "activations", "expected"),
    ("float32 product: barrier left out", "device/product.cuh", "        __syncthreads(); /* before the stage is overwritten */\n", "",
     "float32", "RACE"),
    ("float32 product: array too short", "device/product.cuh", "SHARED(float, w, F32_TILE * F32_ROW);", "SHARED(float, w, F32_TILE * F32_ROW - 2);",
     "float32", "OUT OF BOUNDS|differently"),
    ("attention: wait left out", "attention.cu", "    copy_wait<0>();\n    __syncthreads();\n\n    score_tile", "    __syncthreads();\n\n    score_tile",
     "formula_in_bf16", "under way"),
    ("attention: barrier left out", "attention.cu", "    copy_wait<0>();\n    __syncthreads();\n\n    score_tile", "    copy_wait<0>();\n\n    score_tile",
     "formula_in_bf16", "RACE|UNINITIALISED|under way"),
    ("attention: mask off by one", "attention.cu", "const bool counts = key < tokens &&", "const bool counts = key <= tokens &&",
     "formula_in_bf16", "expected"),
    ("attention: causal mask off by one", "attention.cu", "!(causal && key > query)", "!(causal && key > query + 1)", "formula_in_f16", "expected"),
    ("attention: maximum of the other row", "attention.cu", "most[r] = row_max(most[r]);", "most[r] = row_max(most[0]);", "formula_in_bf16", "expected|NaN|nan"),
    ("attention: two lanes of four", "attention.cu", "    value = add(value, shuffle_xor(value, 1));\n    return add(value, shuffle_xor(value, 2));",
     "    return add(value, shuffle_xor(value, 1));", "formula_in_bf16", "expected"),
    ("attention: values beyond the last not zero", "attention.cu",
     "    load_head(shared_v, v + keys, kv_stride, tokens, KEYS); /* zeros: 0 weight times NaN is NaN */",
     "    load_head(shared_v, v + keys, kv_stride, tokens, tokens);", "formula_in_bf16", "UNINITIALISED"),
    ("attention: queries beyond the last stored", "attention.cu", "        if (query >= queries)\n            continue;\n", "", "formula_in_bf16",
     "OUT OF BOUNDS|RACE|expected"),
    ("attention: heads of the next image", "attention.cu", "(size_t)blockIdx.y * (size_t)tokens * kv_stride + (size_t)(head * HEAD);\n    load_head",
     "(size_t)blockIdx.y * (size_t)(tokens - 1) * kv_stride + (size_t)(head * HEAD);\n    load_head", "formula_in_bf16", "expected"),
    ("float32 attention: warp barrier left out", "attention.cu", "        sum = warp_sum(sum);\n        __syncwarp();\n", "        sum = warp_sum(sum);\n",
     "formula_in_f32", "RACE|UNINITIALISED"),
    ("patches: next image's pixels", "device/sources.cuh", "image = row / (grid * grid);", "image = (row + 1) / (grid * grid);", "patches_of_bytes",
     "expected|OUT OF BOUNDS"),
    ("patches: padding of K not masked", "device/sources.cuh", "const bool present = row < at.rows && k < 3 * at.patch_size * at.patch_size;",
     "const bool present = row < at.rows;", "patches_of_bytes", "OUT OF BOUNDS|expected"),
    ("patches: not scaled back", "patch_embed.cu", "embed->floats ? 1.0f : 1.0f / 256", "1.0f", "patches_of_bytes", "expected"),
    ("patches: onto the class token", "device/epilogues.cuh", "(size_t)(m + m / patches + 1)", "(size_t)(m + m / patches)", "patches_of_bytes",
     "expected|nan"),
    ("head: barrier left out", "head.cu", "        store_row(row, normed, width);\n    }\n    __syncthreads();\n", "        store_row(row, normed, width);\n    }\n",
     "the_head", "RACE|UNINITIALISED"),
    ("head: barrier in a branch", "head.cu", "        store_row(row, normed, width);\n    }\n    __syncthreads();\n",
     "        store_row(row, normed, width);\n        __syncthreads();\n    }\n", "the_head", "DIVERGENCE|DEADLOCK|UNINITIALISED|RACE"),
    ("head: no direction passes", "head.cu", "squares > 0.0f && squares < INFINITY ? inverse_root(squares) : NAN", "inverse_root(squares + 1e-30f)",
     "direction", "expected NaN"),
]


def plant(build, number, bug):
    """Builds the tests with one bug. Returns the program, or why there is none."""
    name, file, before, after, _, _ = bug
    work = os.path.join(build, "bugs", str(number))
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree("kernels", os.path.join(work, "kernels"))
    path = os.path.join(work, "kernels", file)
    with open(path) as f:
        text = f.read()
    if text.count(before) < 1:
        return None, "the replacement no longer fits"
    with open(path, "w") as f:
        f.write(text.replace(before, after, 1))
    units = [u for u in sorted(os.listdir("kernels")) if u.endswith(".cu")]
    # Only what includes the changed file needs compiling.
    changed = [u for u in units if u == file or file.startswith("device/")]
    if file.endswith("row_norm.cuh"):
        changed = ["layernorm.cu", "head.cu"]
    elif file.endswith(("product.cuh", "sources.cuh", "epilogues.cuh")):
        changed = ["gemm.cu", "patch_embed.cu"]
    flags = ["-I" + work] + shlex.split(os.environ["FLAGS"]) + shlex.split(os.environ["WATCH"])
    objects = []
    for unit in units:
        if unit not in changed:
            objects.append(os.path.join(build, unit[:-3] + ".o"))
            continue
        objects.append(os.path.join(work, unit[:-3] + ".o"))
        done = subprocess.run([os.environ["CXX"], *flags, "-w", "-x", "c++", "-c",
                               os.path.join(work, "kernels", unit), "-o", objects[-1]],
                              capture_output=True, text=True)
        if done.returncode:
            return None, "does not compile: " + done.stderr[:200]
    emulator = [os.path.join(build, o) for o in sorted(os.listdir(build))
                if o.endswith(".o") and o[:-2] + ".cu" not in units]
    program = os.path.join(work, "run_kernels")
    subprocess.run([os.environ["CXX"], *objects, *emulator, *shlex.split(os.environ["LIBS"]), "-o", program],
                   check=True)
    return program, ""


def run_tests(program, tests):
    """Whether all tests pass, and else the first finding. Removes the program."""
    try:
        done = subprocess.run([program, *tests.split()], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return False, "does not end"
    finally:
        shutil.rmtree(os.path.dirname(program))
    findings = [line for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]") and ": " in line]
    if findings:
        return False, findings[0].split(": ", 1)[1]
    return done.returncode == 0, f"ended with {done.returncode}"


def try_bug(build, number, bug):
    """One line of the table, and whether the bug was found as expected."""
    name, _, _, _, tests, expected = bug
    program, problem = plant(build, number, bug)
    if not program:
        return False, problem
    passed, finding = run_tests(program, tests)
    if passed:
        return False, "no test noticed it"
    good = re.search(expected, finding) is not None
    return good, ("" if good else "found otherwise: ") + re.sub(r"^.*?thread -?\d+: ", "", finding)


def main():
    build, wanted = sys.argv[1], sys.argv[2:]
    found = missed = 0
    for number, bug in enumerate(BUGS):
        if wanted and not any(part in bug[0] for part in wanted):
            continue
        good, text = try_bug(build, number, bug)
        print(f"{'found ' if good else 'MISSED'} {bug[0]:44} {text[:150]}", flush=True)
        found, missed = found + good, missed + (not good)
    print(f"{found} passed, {missed} failed")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
