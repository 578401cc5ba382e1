"""Rules about the sources: who may include whom, plain ASCII, size, a test and a head for each shader."""

import ast
import graphlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC, SHADERS, TESTS = ROOT / "csrc", ROOT / "shaders", ROOT / "test"
MAX_LINES = 500
MAX_LINES_OF_MAIN = 80
MAX_LINES_OF_STRING = 6  # of a program for a fresh interpreter
TORCH = ("torch/", "ATen/", "c10/")
SHADER_FILES = sorted(SHADERS.glob("*/*.comp"))


def source_files():
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        paths = [ROOT / line for line in tracked.stdout.splitlines()]
    else:  # an unpacked archive
        paths = [
            p
            for top in ("csrc", "shaders", "test", "tools", "torch_aule", "benchmarks")
            for p in ROOT.glob(f"{top}/**/*")
        ]
    kinds = {".cpp", ".h", ".comp", ".glsl", ".def", ".py", ".sh", ".toml", ".md", ".yml", ".yaml"}
    return [path for path in paths if path.suffix in kinds and path.is_file()]


def include_rules():
    """The table of csrc/README.md: folder -> (prefixes of its own tree that it may include, may it see Torch)."""
    rules = {}
    for line in (CSRC / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not re.fullmatch(r"`\w+`", cells[0]):
            continue
        allowed = []
        for name in re.findall(r"`([^`]+)`", cells[1]):
            match = re.fullmatch(r"([^{]*)\{([^}]*)\}(.*)", name)
            names = [match[1] + part + match[3] for part in match[2].split(",")] if match else [name]
            allowed += [name if name.endswith(".h") else name + "/" for name in names]
        rules[cells[0].strip("`")] = (allowed, bool(re.search(r"Torch|ATen|c10", cells[1])))
    return rules


RULES = include_rules()


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if match:
            yield number, match[1] == '"', match[2]


def test_every_folder_has_a_rule():
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} == set(RULES)


@pytest.mark.parametrize("folder", sorted(RULES))
def test_includes(folder):
    allowed, sees_torch = RULES[folder]
    wrong = []
    for path in sorted((CSRC / folder).glob("**/*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        for number, quoted, name in includes(path):
            place = f"{path.relative_to(ROOT)}:{number}: {name}"
            if not quoted:
                if (
                    name.startswith(TORCH)
                    and not sees_torch
                    or name.startswith("vulkan/")
                    and folder not in ("vulkan", "stream", "kernels")
                ):
                    wrong.append(place)
                continue
            generated = name.endswith(".gen.h") or name.endswith(".def")
            own = name.startswith(folder + "/")
            if (
                not own
                and not generated
                and not any(name == rule or rule.endswith("/") and name.startswith(rule) for rule in allowed)
            ):
                wrong.append(place)
    assert not wrong, "\n".join(["not allowed by csrc/README.md:", *wrong])


def family_rules():
    """The table of families in csrc/README.md: family -> families that it may include."""
    rules = {}
    for line in (CSRC / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 and re.match(r"`|every one", cells[0]):
            for family in re.findall(r"`(\w+)`", cells[0]) or ["every one"]:
                rules[family] = set(re.findall(r"`(\w+)`", cells[1]))
    return rules


def family_of(path):
    """ops/attention/plan.h: attention; ops/tensor/record_stream.h: stream_ops."""
    return Path(path).parts[1].split(".")[0]


def test_families_include_what_their_table_says():
    rules, wrong, used = family_rules(), [], {}
    for path in sorted((CSRC / "ops").glob("**/*.*")):
        family = family_of(path.relative_to(CSRC))
        for number, _, name in includes(path):
            if not name.startswith("ops/") or family_of(name) == family:
                continue
            used.setdefault(family, set()).add(family_of(name))
            if family_of(name) not in rules.get(family, set()) | rules["every one"]:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {name}")
    for path in SHADER_FILES:  # what they may include is tested for each below
        used.setdefault(path.parent.name, set()).update(name.split("/")[0] for _, _, name in includes(path))
    assert not wrong, "\n".join(["not among the families' roads in csrc/README.md:", *wrong])
    stale = {f: road for f, to in rules.items() if f != "every one" for road in to if road not in used.get(f, set())}
    assert not stale, f"roads that nobody takes: {stale}"
    graphlib.TopologicalSorter({f: to for f, to in rules.items() if f != "every one"}).prepare()  # raises at a circle


def test_headers_of_one_system_are_guarded():
    """MSVC has none of these; what needs them stands under a condition that names the system."""
    wrong = []
    for path in [p for p in CSRC.glob("**/*") if p.suffix in (".h", ".cpp")]:
        conditions = []
        for number, text in enumerate(path.read_text().splitlines(), 1):
            if re.match(r"\s*#\s*if", text):
                conditions.append(text)
            elif re.match(r"\s*#\s*el", text):
                conditions[-1] += text
            elif re.match(r"\s*#\s*endif", text):
                conditions.pop()
            elif re.search(r"#\s*include <(pthread|unistd|dlfcn|fcntl|sys/\w+|windows)\.h>", text):
                if not any(re.search("_WIN32|__linux__", c) for c in conditions):
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {text}")
    assert not wrong, "\n".join(wrong)


def test_programs_for_fresh_interpreters():
    """Each of test/*/programs is started by a test or imported by another, and no long one is a string."""
    programs = sorted(TESTS.glob("*/programs/*.py"))
    texts = {path: path.read_text() for path in [*TESTS.glob("*/*.py"), *programs]}
    unused = [
        path.name for path in programs
        if not any(re.search(rf'"{path.stem}"|^import {path.stem}\b', text, re.M) for text in texts.values())
    ]  # fmt: skip
    assert not unused, f"nobody runs {unused}"
    strings = []
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                program = "".join(v.value if isinstance(v, ast.Constant) else "?" for v in node.values)
            else:
                program = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            lines = program.strip().splitlines()
            if len(lines) > MAX_LINES_OF_STRING and re.search(r"^import .*\btorch", program, re.M):
                strings.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not strings, "\n".join(["programs that want to be files of test/*/programs:", *strings])


def test_no_broad_torch_headers():
    """Each costs tens of seconds of compilation; per-operator headers say what a file uses."""
    broad = {"ATen/ATen.h", "ATen/Functions.h", "ATen/NativeFunctions.h", "torch/torch.h", "torch/all.h"}
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in CSRC.glob("**/*") if path.suffix in (".h", ".cpp")
        for number, _, name in includes(path)
        if name in broad or name == "torch/extension.h" and path.parent.name != "python"
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_files_of_aten_carry_a_family_of_ops():
    families = {path.stem for path in (CSRC / "ops").iterdir()}
    stems = {path.stem for path in (CSRC / "aten").glob("*.cpp")} - {"autocast"}  # dtypes of operators of all families
    assert len(stems) > 20 and {s for s in stems if s.split("_")[0] not in families} == set()


def test_rows_of_aten_reach_the_cpu():
    """What a kernel declines runs on the CPU: ROW does that. GUARDED is for what the CPU cannot do."""
    hooks = {"_fused_sdp_choice", "_scaled_dot_product_fused_attention_overrideable", "_flash_attention_forward",
             "_scaled_dot_product_fused_attention_overrideable_backward", "_nested_tensor_from_mask_left_aligned",
             "_flash_attention_backward", "_flash_attention_forward_no_dropout_inplace"}  # fmt: skip
    wrong = []
    for path in sorted((CSRC / "aten").glob("*.cpp")):
        for block in re.findall(r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)\n\}", path.read_text(), re.DOTALL):
            names = re.findall(r'm\.impl\("([\w.]+)",\s+GUARDED', block)
            wrong += [f"{path.name}: {name}" for name in names if name not in hooks and path.name != "factory.cpp"]
    assert not wrong, "\n".join(wrong)


def test_the_op_layer_names_nothing_of_vulkan():
    wrong = [
        str(p.relative_to(ROOT))
        for p in (CSRC / "ops").glob("**/*.*")
        if re.search(r"\bVk[A-Z]\w+|\bvk[A-Z]\w+\(", p.read_text())
    ]
    assert not wrong


@pytest.mark.parametrize("path", SHADER_FILES, ids=lambda p: p.stem)
def test_shader_includes_what_its_family_may(path):
    """Its own folder, common/, and the families that csrc/README.md's table allows to the operators too."""
    families = {path.parent.name, "common"} | family_rules().get(path.parent.name, set())
    for _, _, name in includes(path):
        assert (path.parent / name).is_file() or name.split("/")[0] in families or name == "dtype_codes.h", name


@pytest.mark.parametrize("path", SHADER_FILES, ids=lambda p: p.stem)
def test_shader_opens_with_its_head_comment(path):
    """Formula, layouts, tile map; variants tried. Pragmas and extensions may stand before it."""
    for line in path.read_text().splitlines():
        if not line.strip() or re.match(r"\s*#\s*(pragma|extension)", line):
            continue
        assert line.lstrip().startswith(("//", "/*")), f"opens with: {line}"
        return


def test_kernels_that_a_run_did_not_launch_are_found(tmp_path):
    """tools/run_tests.py ends with this check of the kernels that the validated passes launched."""
    from kernel_coverage import UNREACHED, kernels, not_launched

    names = sorted(kernels() - UNREACHED.keys())
    assert len(names) > 100 and kernels() > UNREACHED.keys()
    log = tmp_path / "log"
    log.write_text("".join(f"{name}<C=float>\n" for name in names[1:]))
    assert not_launched(log) == {names[0]}


def test_every_kernel_is_launched():
    text = "\n".join(
        path.read_text()
        for folder in ("ops", "kernels", "stream", "runtime")
        for path in (CSRC / folder).glob("**/*.*")
    )
    launched = set(re.findall(r"\bkernel::(\w+)", text))
    assert not [path.stem for path in SHADER_FILES if path.stem not in launched]


def test_sources_are_ascii():
    wrong = []
    for path in source_files():
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if not line.isascii():
                wrong.append(f"{path.relative_to(ROOT)}:{number}")
                break
    assert not wrong, "\n".join(wrong)


def test_no_file_is_too_long():
    code = {".cpp", ".h", ".comp", ".glsl", ".py", ".sh"}
    sizes = {p: len(p.read_text().splitlines()) for p in source_files() if p.suffix in code}
    wrong = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in sizes.items() if lines > MAX_LINES]
    assert not wrong, "\n".join(wrong)


def test_lines_end_at_column_120():
    suffixes = {".cpp", ".h", ".def", ".comp", ".glsl"}
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
        for path in source_files() if path.suffix in suffixes
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_mains_of_shaders_are_short():
    """A longer main(), with what it includes, is divided. `#pragma aule inline` can leave the SPIR-V as it was."""
    wrong = []
    for path in [p for p in SHADERS.glob("**/*") if p.suffix in (".comp", ".glsl")]:
        text = path.read_text()
        mains = re.findall(r"^void main\(\) \{\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL)
        assert len(mains) == text.count("void main("), f"{path.name}: a main() that this does not read"
        for main in mains:
            included = re.findall(r'^\s*#include "(.*)"$', main, re.MULTILINE)
            lines = main.count("\n") + sum((SHADERS / name).read_text().count("\n") for name in included)
            if lines > MAX_LINES_OF_MAIN:
                wrong.append(f"{path.relative_to(ROOT)}: {lines} lines")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", SHADER_FILES, ids=lambda p: p.stem)
def test_heads_of_shaders_are_short(path):
    """The formula, who owns what, layouts. Measurements are pages of docs/ladders/."""
    text = re.sub(r"^\s*#\s*(pragma|extension).*\n", "", path.read_text(), flags=re.MULTILINE).lstrip()
    head = re.match(r"(?://.*\n)*", text)[0].splitlines()
    assert len(head) <= 12, f"{len(head)} lines"


def test_what_a_device_is_stands_in_core():
    """Vendors' ids and the greatest number of devices stand in `core`; `vulkan` reads ids, `python` shows them."""
    ids = r"vendor_id|Kind::cpu|0x10de|0x1002|0x8086"
    limit = r"new \w+\[64\]|std::array<.*, 64>"
    may_read_ids = ("csrc/vulkan/physical.cpp", "csrc/python/")
    wrong = []
    for path in CSRC.glob("**/*.*"):
        name = str(path.relative_to(ROOT))
        if name.startswith("csrc/core/"):
            continue
        pattern = limit if name.startswith(may_read_ids) else f"{ids}|{limit}"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                wrong.append(f"{name}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_environment_variables_are_read_in_one_place():
    readers = [
        str(path.relative_to(ROOT)) for path in CSRC.glob("**/*.*") if re.search(r"\bgetenv\b", path.read_text())
    ]
    assert readers == ["csrc/core/environment.cpp"]
