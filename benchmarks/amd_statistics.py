"""Compiles every kernel variant for AMD GPUs without one, and prints registers, shared memory, spills and occupancy.

    python benchmarks/amd_statistics.py --out benchmarks/results/amd-radv-25.0.7.md      (Debian or Ubuntu, x86-64)

Mesa 25.0's RADV has a null device: the real AMD compiler and no hardware. Its packages are fetched from Debian's
backports and unpacked into a private folder (--driver); nothing is installed. Needs a built extension, a C compiler
and build/gen of the same revision (`make build`).

Two passes per chip, each in processes of their own, because the compiler aborts on what a chip lacks:
1. PyTorch operators run on the null device, with AULE_PIPELINE_STATISTICS=1: each pipeline that the planner would use.
2. Variants that no operator of pass 1 took are compiled by themselves, with their default constants, and the attention
   kernels on matrix units in several shapes.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHIPS = {"navi21": "RDNA2", "navi31": "RDNA3", "gfx1201": "RDNA4", "gfx940": "CDNA3"}
PACKAGES = ["mesa-vulkan-drivers", "libdrm2", "libdrm-amdgpu1", "libdrm-common"]
MAIN = re.compile(r"flash_attn|gemm|gemv")
SHOWN = ("VGPRs", "Spilled VGPRs", "Spilled SGPRs", "LDS size", "Scratch size", "Subgroups per SIMD")
SECONDS = 120  # for one pipeline

# Caps fields of csrc/kernels/caps.h, as compile.py's feature names -> what the table of rows calls them.
FEATURES = {
    "kFeatureFloat16": "float16", "kFeatureBFloat16": "bfloat16", "kFeatureFloat64": "float64",
    "kFeatureFloat32AtomicAdd": "float32_atomic_add", "kFeatureSubgroupArithmetic": "subgroup_arithmetic",
    "kFeatureSubgroupShuffle": "subgroup_shuffle", "kFeatureCooperativeMatrix": "cooperative_matrix",
    "kFeatureCooperativeMatrix2": "cooperative_matrix2", "kFeatureInt8": "int8",
    "kFeatureIntDotProduct": "int_dot_product",
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The driver and its stand-in for the loader


def debian_mirror() -> str:
    """That of this machine's own apt sources."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for text in (path.read_text() for path in sources if path.is_file()):
        found = re.search(r"^(?:deb|URIs:)[^#\n]*?(https?://\S+/debian)/?(?:\s|$)", text, re.M)
        if found:
            return found[1]
    sys.exit("no Debian mirror in this machine's apt sources")


def fetch_driver(folder: Path) -> None:
    """Unpacks Mesa of bookworm-backports into `folder`, with package lists and a cache of its own."""
    library = folder / "root/usr/lib/x86_64-linux-gnu/libvulkan_radeon.so"
    if not library.exists():
        for part in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        mirror = debian_mirror()
        (folder / "sources.list").write_text(f"deb {mirror} bookworm main\ndeb {mirror} bookworm-backports main\n")
        options = [f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=/dev/null",
                   f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache", "APT::Sandbox::User=",
                   "Debug::NoLocking=1"]  # fmt: skip
        apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
        subprocess.run([*apt, "update"], check=True)
        names = [f"{name}/bookworm-backports" for name in PACKAGES]
        subprocess.run([*apt, "download", *names], check=True, cwd=folder / "debs")
        for package in sorted((folder / "debs").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True)
    (folder / "radv.json").write_text(
        f'{{"ICD": {{"api_version": "1.4.305", "library_path": "{library}"}}, "file_format_version": "1.0.0"}}\n'
    )


def build_shim(folder: Path, gen: Path) -> None:
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-I", gen, ROOT / "benchmarks/amd_null.c",
                    "-o", folder / "null.so", "-ldl"], check=True)  # fmt: skip


def environment(folder: Path, chip: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": str(folder / "root/usr/lib/x86_64-linux-gnu"),
        "VK_DRIVER_FILES": str(folder / "radv.json"),
        "VK_ICD_FILENAMES": str(folder / "radv.json"),
        "RADV_FORCE_FAMILY": chip,
        "TORCH_AULE_VULKAN_LIBRARY": str(folder / "null.so"),
        "AULE_PIPELINE_STATISTICS": "1",
        "AULE_DISABLE_MEMORY_BUDGET": "1",
        "AULE_DISABLE_SPARSE_BINDING": "1",
        "AULE_DISABLE_TIMESTAMPS": "1",
        "TORCH_AULE_PIPELINE_CACHE": "0",
        "TORCH_AULE_STRICT": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }


# ---------------------------------------------------------------------------------------------------------------------
# Pass 1, in the child: operators


def workload() -> list[tuple[str, object]]:
    """(what it is, call). Values are never read: nothing runs."""
    import torch
    import torch.nn.functional as F

    half, brain, full = torch.float16, torch.bfloat16, torch.float32
    short = {half: "f16", brain: "bf16", full: "f32"}
    jobs: list[tuple[str, object]] = []

    def empty(*size, dtype, grad=False):
        return torch.empty(*size, dtype=dtype, device="aule").requires_grad_(grad)

    def attention(dtype, dim, causal, backward=True, n=2048, queries=None, heads=(4, 4), dropout=0.0, variant=""):
        def call():
            os.environ["AULE_ATTENTION_VARIANT"] = variant
            q = empty(1, heads[0], queries or n, dim, dtype=dtype, grad=backward)
            k, v = (empty(1, heads[1], n, dim, dtype=dtype, grad=backward) for _ in range(2))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout,
                                                 enable_gqa=heads[0] != heads[1])  # fmt: skip
            if backward:
                torch.autograd.grad(out, (q, k, v), torch.empty_like(out))

        words = [f"attention {short[dtype]} D{dim}", "causal" if causal else ""]
        words += [f"dropout {dropout}" if dropout else "", f"{queries} query" if queries else "", variant]
        jobs.append((" ".join(w for w in words if w), call))

    for dtype in (half, brain, full):
        for dim in (64, 128):
            for causal in (False, True):
                attention(dtype, dim, causal)
    for dim in (32, 80, 96, 192, 256):
        attention(half, dim, False)
    attention(half, 64, False, dropout=0.1)
    attention(half, 128, False, dropout=0.1)
    for dim in (64, 128, 192):
        attention(half, dim, True, variant="staged")
    for dim in (192, 256):
        attention(half, dim, True)
    for queries in (1, 16):
        attention(half, 128, False, backward=False, n=16384, queries=queries, heads=(32, 8))

    def matmul(dtype, layout, m, n, k):
        def call():
            a = empty(m, k, dtype=dtype) if layout[0] == "N" else empty(k, m, dtype=dtype).t()
            b = empty(k, n, dtype=dtype) if layout[1] == "N" else empty(n, k, dtype=dtype).t()
            a @ b

        jobs.append((f"matmul {short[dtype]} {layout} {m}x{n}x{k}", call))

    for dtype in (half, brain, full):
        for layout in ("NN", "NT", "TN", "TT"):
            matmul(dtype, layout, 4096, 4096, 2048)
        few = [(m, 4096, 4096) for m in (1, 8, 16)]
        for m, n, k in ((512, 512, 512), (100, 77, 50), *few, (64, 64, 65536)):
            matmul(dtype, "NT", m, n, k)

    def rows(name, function, dtype, backward=True):
        def call():
            x = empty(4096, 4096, dtype=dtype, grad=backward)
            w, b = (empty(4096, dtype=dtype, grad=backward) for _ in range(2))
            y = function(x, w, b)
            if backward:
                torch.autograd.grad(y, (x, w, b), torch.empty_like(y), allow_unused=True)

        jobs.append((f"{name} {short[dtype]}", call))

    for dtype in (full, half):
        rows("layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b), dtype)
        rows("rms_norm", lambda x, w, b: F.rms_norm(x, (4096,), w), dtype)
        rows("softmax", lambda x, w, b: x.softmax(-1), dtype)
        target = torch.empty(4096, dtype=torch.int64, device="aule")
        rows("cross_entropy", lambda x, w, b, t=target: F.cross_entropy(x, t), dtype)
        rows("gelu", lambda x, w, b: F.gelu(x), dtype)
        rows("dropout", lambda x, w, b: F.dropout(x, 0.1), dtype)
        rows("x + 1", lambda x, w, b: x + 1, dtype, backward=False)
        rows("sum", lambda x, w, b: x.sum(-1), dtype, backward=False)
        rows("cumsum", lambda x, w, b: x.cumsum(-1), dtype, backward=False)
        rows("sort", lambda x, w, b: x[:64].sort(-1)[0], dtype, backward=False)
        rows("transposed copy", lambda x, w, b: x.t().contiguous(), dtype, backward=False)

    def conv(dtype, images, channels, size, stride=1):
        def call():
            x = empty(images, channels, size, size, dtype=dtype, grad=True)
            w = empty(channels, channels, 3, 3, dtype=dtype, grad=True)
            y = F.conv2d(x, w, padding=1, stride=stride)
            torch.autograd.grad(y, (x, w), torch.empty_like(y))

        step = f" stride {stride}" if stride != 1 else ""
        jobs.append((f"conv2d {short[dtype]} {images}x{channels}x{size}x{size}{step}", call))

    for dtype in (half, brain, full):
        for images, channels, size, stride in ((4, 64, 32, 1), (32, 64, 56, 1), (32, 128, 28, 1), (32, 256, 28, 2)):
            conv(dtype, images, channels, size, stride)

    def lower_precision():
        torch.set_float32_matmul_precision("high")
        empty(2048, 2048, dtype=full) @ empty(2048, 2048, dtype=full)
        torch.set_float32_matmul_precision("highest")

    def embedding():
        w = empty(1000, 256, dtype=full, grad=True)
        y = F.embedding(torch.empty(4096, dtype=torch.int64, device="aule"), w)
        torch.autograd.grad(y, w, torch.empty_like(y))

    def adamw():
        p = torch.nn.Parameter(empty(1 << 20, dtype=full))
        p.grad = torch.empty_like(p)
        torch.optim.AdamW([p], fused=True).step()

    return [*jobs, ("matmul f32 high", lower_precision), ("embedding f32", embedding), ("fused AdamW f32", adamw)]


def child_operators(start: int) -> None:
    import torch

    import torch_aule  # noqa: F401

    print("PROPERTIES", torch.aule.get_device_properties().as_dict(), file=sys.stderr, flush=True)
    for index, (name, call) in enumerate(workload()):
        if index < start:
            continue
        print(f"JOB {index} {name}", file=sys.stderr, flush=True)
        signal.alarm(SECONDS)
        try:
            call()
            torch.aule.synchronize()
        except (RuntimeError, IndexError, NotImplementedError) as error:
            print(f"FAILED {str(error).splitlines()[0][:160]}", file=sys.stderr, flush=True)
    print("END", file=sys.stderr, flush=True)
    sys.stderr.flush()
    os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# Pass 2, in the child: the rest of the kernel table


def kernel_rows(gen: Path) -> list[tuple[str, int, int, set[str]]]:
    """name, offset, bytes, features of each row of the generated table."""
    pattern = re.compile(r'^    \{"([^"]+)", aule_spirv \+ (\d+), (\d+), ([^,]+), \d+, (?:true|false)\}', re.M)
    found = []
    for name, offset, size, features in pattern.findall((gen / "kernels.gen.cpp").read_text()):
        found.append((name, int(offset), int(size), {FEATURES[f] for f in features.split(" | ") if f != "0"}))
    return found


def matrix_attention_constants(name: str) -> list[tuple[str, int, list[int]]]:
    """The words of ops/attention_problem.cpp for RDNA3's 16 x 16 x 16 matrices: (shape, subgroup, words)."""
    table = {"fwd": "kForwardOthers", "bwd_dq": "kDqOthers", "bwd_dkdv": "kDkDvOthers"}[
        re.search("attn_(.*)_matrix", name)[1]
    ]
    text = re.search(rf"MatrixShape {table}\[\] = (.*?);", (ROOT / "csrc/ops/attention_shapes.cpp").read_text(), re.S)[
        1
    ]
    planned = [tuple(map(int, row.split(","))) for row in re.findall(r"\{([\d, ]+)\}", text)]
    found = []
    for subgroup, dim in itertools.product((64, 32), (64, 128, 192)):
        # A lane holds a column, every second row of it or every fourth, each row its own slot.
        slots = 256 // subgroup
        lane_map = 16 | 1 << 8 | 1 << 16 | slots << 24
        rows_of = sum(e * subgroup // 16 << 4 * e for e in range(slots))
        each = sum(e << 4 * e for e in range(slots))
        row = next(row for row in planned if dim <= row[0])
        first, parts = row[1:6], 2 if "bwd" in name and (row[8:] == (2,) or dim > 128) else 1
        for shape in dict.fromkeys((first, *SMALLER_SHAPES)):
            warps, rows, tile, step, stages = shape
            words = [BF16 if "bfloat16" in name else F16, -1, 0, 0, warps * subgroup, 16, 16, subgroup, lane_map,
                     rows_of, 0, 0, each, rows_of, dim, dim, tile | rows << 8 | step << 16 | stages << 24,
                     1 | 8 | 128 | (64 if "dq" in name else 0) | (1024 if parts == 2 else 0),
                     2 * dim, 2 * dim]  # fmt: skip
            what = f"D{dim}, {subgroup} lanes, {','.join(map(str, shape))}" + (" (plan)" if shape == first else "")
            found.append((what, subgroup, [w & 0xFFFFFFFF for w in words]))
    return found


# warps, rows, tile, step, stages: as AULE_ATTENTION_SHAPE takes them.
SMALLER_SHAPES = [
    (4, 2, 64, 1, 1), (4, 2, 16, 1, 2), (4, 1, 64, 1, 1), (4, 1, 32, 1, 1), (4, 1, 16, 1, 1), (8, 1, 16, 1, 2)
]  # fmt: skip
F16, BF16 = 1, 2  # DType codes, read from csrc/kernels/dtype_codes.h by main()


def child_rows(gen: Path, start: int, skip: set[str], shim: str) -> None:
    import torch

    import torch_aule  # noqa: F401

    properties = torch.aule.get_device_properties().as_dict()
    torch.empty(1, device="aule")
    compile_one = ctypes.CDLL(shim).aule_compile
    spirv = (gen / "kernels.gen.bin").read_bytes()
    number = -1
    for name, offset, size, features in kernel_rows(gen):
        forms: list[tuple[str, list[int], int]] = [("default constants", [], 0)]
        if re.search("flash_attn.*_matrix", name) and "STAGED=1" not in name:
            forms = [(what, words, subgroup) for what, subgroup, words in matrix_attention_constants(name)]
        elif name in skip:
            continue
        for what, words, subgroup in forms:
            number += 1
            if number < start:
                continue
            print(f"JOB {number} {name}|{what}", file=sys.stderr, flush=True)
            lacks = sorted(f for f in features if not properties.get(f))
            if lacks:
                print(f"LACKS {', '.join(lacks)}", file=sys.stderr, flush=True)
                continue
            signal.alarm(SECONDS)
            out = ctypes.create_string_buffer(8192)
            code = spirv[offset : offset + size]
            constants = (ctypes.c_uint32 * len(words))(*words)
            status = compile_one(ctypes.c_char_p(code), ctypes.c_size_t(size), constants, ctypes.c_uint32(len(words)),
                                 ctypes.c_uint32(subgroup), out, ctypes.c_size_t(len(out)))  # fmt: skip
            if status != 0:
                print(f"FAILED VkResult {status}", file=sys.stderr, flush=True)
            else:
                print(f"{name}({what}): {out.value.decode()}", file=sys.stderr, flush=True)
    print("END", file=sys.stderr, flush=True)
    os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# The parent


class Result:
    """What one chip's compiler made of the kernels."""

    def __init__(self, chip: str):
        self.chip = chip
        self.properties: dict = {}
        self.pipelines: dict[str, dict[str, int]] = {}  # label -> statistics
        self.used_by: dict[str, list[str]] = {}  # label -> operators
        self.direct: dict[tuple[str, str], dict[str, int]] = {}  # (row, what) -> statistics
        self.lacking: dict[str, str] = {}
        self.failures: list[tuple[str, str]] = []

    def rows(self) -> set[str]:
        return {label.split("(")[0] for label in self.pipelines}


def statistics_of(text: str) -> dict[str, int]:
    return {name.strip(): int(value) for name, value in re.findall(r"([A-Za-z -]+?) (\d+);", text)}


def run_child(arguments: list[str], env: dict[str, str], take) -> None:
    """Starts the child, again after each job that killed it, until one comes to its end."""
    start = 0
    while True:
        done = subprocess.run([sys.executable, __file__, *arguments, str(start)], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace")  # fmt: skip
        job = None
        for line in done.stderr.splitlines():
            if line.startswith("JOB "):
                number, job = line[4:].split(" ", 1)
                start = int(number) + 1
            take(job, line)
        if "END" in done.stderr.splitlines():
            return
        if job is None:
            raise SystemExit(f"the null device does not start:\n{done.stderr[-2000:]}")
        tail = next((x for x in reversed(done.stderr.splitlines()) if not x.startswith("JOB ")), "")
        take(job, f"FAILED the compiler ended the process with {done.returncode}: {tail[:120]}")


def measure(chip: str, folder: Path, gen: Path) -> Result:
    result = Result(chip)
    env = environment(folder, chip)

    def operators(job, line):
        if line.startswith("PROPERTIES "):
            result.properties = eval(line[11:], {"inf": float("inf"), "nan": float("nan")})  # written by our own child
        elif line.startswith("FAILED "):
            result.failures.append((job, line[7:]))
        elif match := re.match(r"(\S+): (.*VGPRs \d+;.*)", line):
            result.pipelines[match[1]] = statistics_of(match[2])
            result.used_by.setdefault(match[1], []).append(job)

    run_child(["--child", "operators", "--start"], env, operators)

    def direct(job, line):
        name, what = (job or "|").split("|")
        if line.startswith("LACKS "):
            result.lacking[name] = line[6:]
        elif line.startswith("FAILED "):
            result.failures.append((job.replace("|", ", "), line[7:]))
        elif "VGPRs " in line and not line.startswith("JOB "):
            result.direct[name, what] = statistics_of(line.rsplit("): ", 1)[-1])

    (folder / "skip").write_text("\n".join(sorted(result.rows())))
    run_child(["--child", "rows", "--gen", str(gen), "--driver", str(folder), "--start"], env, direct)
    return result


def spills(statistics: dict[str, int]) -> bool:
    return statistics.get("Spilled VGPRs", 0) > 0 or statistics.get("Scratch size", 0) > 0


def cells(statistics: dict[str, int]) -> str:
    return " | ".join(str(statistics.get(name, "")) for name in SHOWN)


TITLES = ("kernel", "constants", "first used by", *SHOWN)
HEAD = f"| {' | '.join(TITLES)} |\n|---|---|---|" + "---:|" * len(SHOWN)
MATRIX_ATTENTION = re.compile("flash_attn.*_matrix")
MATRIX_NOTE = """\
Several shapes (warps, rows, tile, step, stages), causal, compiled by themselves. The planner gets subgroups of 64,
RADV's default; 32 would have to be asked for with a required subgroup size."""


def report(results: list[Result], names: set[str], about: str) -> str:
    out = [
        "# What RADV's compiler makes of the kernels",
        "",
        f"{about}; written by `python benchmarks/amd_statistics.py`.",
        "No AMD hardware was used: speeds are unknown and results unchecked. Registers are per lane, LDS in bytes of a",
        "workgroup, scratch in bytes of a subgroup. A spilled scalar register goes to a lane of a vector register, a",
        "spilled vector register to memory.",
        "",
        "| chip | family | subgroup | cooperative matrices | pipelines of operators | of them spill vector registers | "
        "kernel variants compiled | lack a feature | failed |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        compiled = (r.rows() | {name for name, _ in r.direct}) & names
        spilled = sum(map(spills, r.pipelines.values()))
        shapes = len(r.properties.get("coopmat_shapes", []))
        out.append(f"| {r.chip} | {CHIPS[r.chip]} | {r.properties.get('subgroup_size')} | "
                   f"{f'{shapes} shapes' if shapes else 'not in this driver'} | {len(r.pipelines)} | {spilled} | "
                   f"{len(compiled)} of {len(names)} | {len(r.lacking)} | {len(r.failures)} |")  # fmt: skip
    for r in results:
        out += ["", f"## {r.chip} ({CHIPS[r.chip]})", ""]
        planned = [(label.split("(")[0], "(" + label.partition("(")[2], r.used_by[label][0], s)
                   for label, s in r.pipelines.items()]  # fmt: skip
        matrix = [(name, what, "", s) for (name, what), s in r.direct.items() if MATRIX_ATTENTION.match(name)]
        rest = [(name, "", what, s) for (name, what), s in r.direct.items() if not MATRIX_ATTENTION.match(name)]
        bad = [x for x in (*planned, *rest) if spills(x[3])]
        if bad:
            out += ["Spill vector registers or use scratch memory:", "", HEAD, *map(table_row, bad)]
        else:
            out += ["No pipeline of an operator, and no variant with default constants, spills vector registers."]
        if r.failures:
            out += ["", "Failed:", ""] + [f"- {job}: {why}" for job, why in r.failures]
        if r.lacking:
            features = ", ".join(sorted({f for value in r.lacking.values() for f in value.split(", ")}))
            out += ["", f"{len(r.lacking)} variants need what the chip, or this driver for it, lacks: {features}."]
        out += ["", "### Attention and matrix products", "", HEAD, *(table_row(x) for x in planned if MAIN.match(x[0]))]
        if matrix:
            out += ["", "### Attention on matrix units", "", MATRIX_NOTE, "", *without_spills(matrix), ""]
            out += [HEAD, *map(table_row, matrix)]
        # Registers of default constants say little: those variants are only counted.
        out += ["", "### Other kernels", "", HEAD, *(table_row(x) for x in planned if not MAIN.match(x[0]))]
    return "\n".join(out) + "\n"


def without_spills(matrix) -> list[str]:
    found: dict[str, list[str]] = {}
    for name, what, _, statistics in matrix:
        dim, lanes, shape = what.split(", ")
        shapes = found.setdefault(f"{name.split('<')[0]}, {dim}, {lanes}", [])
        if not spills(statistics):
            shapes.append(f"({shape.replace(' (plan)', '')})")
    rows = [f"| {key} | {' '.join(shapes) or 'none'} |" for key, shapes in sorted(found.items())]
    return ["| kernel, head size, subgroup | shapes without spills |", "|---|---|", *rows]


def table_row(x) -> str:
    name, constants, user, statistics = x
    return f"| {name} | {constants} | {user} | {cells(statistics)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="Markdown file to write (default: standard output)")
    parser.add_argument("--driver", type=Path, default=ROOT / "build/amd", help="folder for the driver and the shim")
    parser.add_argument("--gen", type=Path, default=ROOT / "build/gen", help="generated kernel table")
    parser.add_argument("--chips", nargs="+", default=list(CHIPS), choices=list(CHIPS))
    parser.add_argument("--child", choices=["operators", "rows"], help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    codes = (ROOT / "csrc/kernels/dtype_codes.h").read_text()
    for name in ("F16", "BF16"):
        globals()[name] = int(re.search(rf"AULE_DT_{name} (\d+)", codes)[1])
    if options.child == "operators":
        child_operators(options.start)
    folder = options.driver.resolve()
    if options.child == "rows":
        skip = set((folder / "skip").read_text().split("\n"))
        child_rows(options.gen, options.start, skip, str(folder / "null.so"))
    folder.mkdir(parents=True, exist_ok=True)
    fetch_driver(folder)
    build_shim(folder, options.gen.resolve())
    results = []
    for chip in options.chips:
        results.append(measure(chip, folder, options.gen.resolve()))
        print(f"{chip}: {len(results[-1].pipelines)} pipelines, {len(results[-1].direct)} other variants, "
              f"{len(results[-1].failures)} failures", file=sys.stderr, flush=True)  # fmt: skip
    names = {row[0] for row in kernel_rows(options.gen)}
    text = report(results, names, f"RADV null device, {results[0].properties.get('driver_info', '')}")
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
