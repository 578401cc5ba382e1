"""docs/ says what the code does: the files and functions that it names are there."""

import json
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
QUOTING = [page for page in PAGES if page.parent.name == "develop"]
assert QUOTING
READMES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "csrc/README.md", "shaders/README.md",
                                    "benchmarks/README.md", "test/README.md", "torch_aule/README.md")]  # fmt: skip
STEP = re.compile(r"\| (\d+) \| .* \| `([^`]+)` \| (\S+) \|$")


NAMED = re.compile(
    r"(?<![\w/.>])((?:csrc|shaders|torch_aule|test|tools|benchmarks|docs|aten|core|kernels|ops|runtime|stream|vulkan|python)"
    r"/[\w/.]+\.(?:cpp|h|comp|glsl|def|py|sh|md|jsonl|png))(?!\w)"
)


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    """With the path from the root; in csrc/README.md, the path in csrc will do."""
    named = NAMED.findall(page.read_text())
    assert named or page in READMES
    roots = (ROOT, ROOT / "csrc") if page.parent.name == "csrc" else (ROOT, page.parent)
    assert not [name for name in named if not any((root / name).exists() for root in roots)]


def test_the_forty_questions_of_the_index():
    """Each answer of docs/README.md is there: the file, and in it the word. And the index has every page."""
    text = (ROOT / "docs" / "README.md").read_text()
    rows = re.findall(r"^\| (.+\?) \| (\S+) \| `(.+)` \|$", text, re.M)
    assert len(rows) == 40
    assert [f"{file}: {word}" for _, file, word in rows if word not in (ROOT / file).read_text()] == []
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([\w./]+)\)", text)}
    assert [page for page in PAGES if page.parent.name in ("use", "design", "develop") and page not in linked] == []


def test_files_that_comments_name_exist():
    """With the path from the root, or as an include has it."""
    comment = re.compile(r"(?://|#(?!include\b)) .*")
    sources = [
        path
        for folder in ("csrc", "shaders", "torch_aule", "tools", "benchmarks")
        for path in (ROOT / folder).glob("**/*.*")
        if path.suffix in (".cpp", ".h", ".comp", ".glsl", ".def", ".py", ".sh")
    ]
    roots = (ROOT, ROOT / "csrc", ROOT / "shaders")
    named = [(path, name) for path in sources for line in comment.findall(path.read_text())
             for name in NAMED.findall(line)]  # fmt: skip
    assert len(named) > 100
    assert not [f"{path.relative_to(ROOT)}: {name}" for path, name in named
                if not any((root / name).exists() for root in roots)]  # fmt: skip


def test_kernels_that_pages_name_exist():
    """Whole names, in the tables of the pages about kernels."""
    kernels = {path.stem for path in (ROOT / "shaders").glob("*/*.comp")}
    families = ("flash_attn_", "gemm_", "gemv", "implicit_gemm", "norm_fwd", "norm_bwd")
    wrong, known = [], 0
    for page in (page for page in PAGES if page.stem != "operators"):  # which has the operators of these names
        for line in page.read_text().splitlines():
            for name in re.findall(r"(?<![\w./:])[a-z]\w+(?![\w./(]|::)", line) if line.startswith("| ") else ():
                if name.startswith(families) and not name.endswith("_") and name not in kernels:
                    wrong.append(f"{page.name}: {name}")
                known += name in kernels
    assert known > 20 and not wrong, wrong


def test_every_route_of_a_product_is_on_its_page():
    header = (ROOT / "csrc/ops/matmul/route.h").read_text()
    plans = re.findall(r"\w+Plan", re.search(r"std::variant<([^>]*)>\s*kernel;", header)[1])
    rows = re.findall(r"^\| `(\w+Plan)` \|", (ROOT / "docs/design/matmul.md").read_text(), re.MULTILINE)
    assert len(plans) > 10 and sorted(plans) == sorted(rows)


def test_every_family_of_attention_is_on_its_page():
    families = (ROOT / "csrc/ops/attention/family/families.def").read_text()
    names = set(re.findall(r"^ATTENTION_FAMILY\((\w+),", families, re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/use/attention.md").read_text(), re.MULTILINE)
    assert len(names) > 5 and names == set(rows)


def test_every_form_of_generated_kernels_is_on_its_page():
    """In the order in which the forms are tried."""
    source = (ROOT / "torch_aule/compile/codegen/source.py").read_text()
    forms = re.search(r"^FORMS: .* = \(([^)]*)\)", source, re.MULTILINE)[1].split(", ")
    page = (ROOT / "docs/design/torch_compile.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page[page.index("| form | when |") :].split("\n\n")[0], re.MULTILINE)
    assert len(forms) > 5 and rows == forms


def test_ladders_and_kernels_name_each_other():
    """A kernel's head points to its ladder, and the ladder's page says first which kernel it is about."""
    pages = {page.stem: page.read_text() for page in PAGES if page.parent.name == "ladders"}
    wrong, pointed = [], {}
    for path in [p for p in (ROOT / "shaders").glob("**/*.*") if p.suffix in (".comp", ".glsl")]:
        for name in re.findall(r"docs/ladders/(\w+)\.md", path.read_text()):
            pointed.setdefault(name, []).append(path)
            if name not in pages:
                wrong.append(f"{path.name} points to docs/ladders/{name}.md, which is not there")
    for name, text in pages.items():
        first = re.search(r"`shaders/[\w/]+/(\w+)\.(?:comp|glsl)`", text)
        if first is None or first[1] not in [path.stem for path in pointed.get(name, [])]:
            wrong.append(f"docs/ladders/{name}.md: the kernel that it names first does not point to it")
    assert len(pages) > 15 and not wrong, "\n".join(wrong)


def test_steps_of_the_walks_are_in_the_files_that_they_name():
    steps = [
        match.groups()
        for line in (ROOT / "docs/design/architecture.md").read_text().splitlines()
        if (match := STEP.match(line))
    ]
    assert len(steps) == 50
    wrong = [
        f"step {number}: {function} is not in {file}"
        for number, function, file in steps
        if not re.search(rf"(?<![\w]){re.escape(function)}\b", (ROOT / file).read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_the_page_of_environment_variables_is_complete():
    page = (ROOT / "docs/use/environment.md").read_text()
    header = (ROOT / "csrc/core/environment.h").read_text()
    rows = re.findall(r'X\((\w+), +\w+, +([^"\n]+), +"(\w+)"\)', header)
    assert len(rows) > 12
    name = r'"(TORCH_AULE_[A-Z0-9_]*[A-Z0-9])"'
    read = {variable for *_, variable in rows}
    assert all(variable.startswith("TORCH_AULE_") for variable in read)
    for path in (ROOT / "torch_aule").glob("**/*.py"):
        read |= set(re.findall(name, path.read_text()))
    capabilities = re.findall(
        r"^AULE_(?:FEATURE|EXTENSION|RULE)\((\w+),", (ROOT / "csrc/core/capabilities.def").read_text(), re.MULTILINE
    )
    switches = re.findall(r"^  X\((\w+)\)", header, re.MULTILINE)
    overrides = re.findall(r"^  X\(\w+, +(\w+), +[^\"\n]*$", header, re.MULTILINE)
    assert len(capabilities) > 15 and len(switches) > 4 and len(overrides) > 10
    assert not {c for c in [*capabilities, *switches, *overrides] if f"`{c}`" not in page}
    written = set(re.findall(r"`(TORCH_AULE_[A-Z0-9_]*[A-Z0-9])`", page))
    assert read - written == set(), "not in docs/use/environment.md"
    assert written - read == set(), "in docs/use/environment.md and nowhere else"


def is_quoted_from(block: list[str], source: list[str]) -> bool:
    """Whether the lines are the source's, in its order and indented among each other as there; some may be left out."""
    block = textwrap.dedent("\n".join(block)).split("\n")
    for start, line in enumerate(source):
        if line.lstrip() != block[0]:
            continue
        indent = line[: len(line) - len(block[0])]
        rest = iter(source[start:])
        if all(any(other == (indent + quoted).rstrip() for other in rest) for quoted in block):
            return True
    return False


def test_the_comparison_of_quoted_lines():
    source = ["class A:", "    def f(x):", "        y = x", "        return y", "    z = 1"]
    for right in (["def f(x):", "    return y"], ["    return y"], ["class A:", "    z = 1"], source):
        assert is_quoted_from(right, source)
    for wrong in (["def f(x):", "return y"], ["return y", "y = x"], ["def f(x):", "        y = x"], ["return"]):
        assert not is_quoted_from(wrong, source)


@pytest.mark.parametrize("page", QUOTING, ids=[page.stem for page in QUOTING])
def test_quoted_lines_are_those_of_the_sources(page):
    """An indented block belongs to the source that a paragraph before it, under the same heading, begins with."""
    wrong, quoted, source, before, block = [], 0, None, "", []
    for line in [*page.read_text().splitlines(), "## "]:
        if line.startswith("    ") and source is not None:
            quoted += 1
            block.append(line)
        elif block:
            wrong += [] if is_quoted_from(block, source) else ["\n".join(block)]
            block = []
        if line.startswith("## "):
            source = None
        elif not line.startswith("    "):
            named = re.match(r"`([\w/]+\.(?:comp|glsl|cpp|h|def|py))`", line)
            source = (ROOT / named[1]).read_text().splitlines() if named and not before else source
        before = line
    assert quoted > 4 and not wrong, "\n\n".join(wrong)


def links(page):
    """The files and folders that a page links to."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:", link)]
    return [(page.parent / target).resolve() for target in targets if target]


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not [str(target) for target in links(page) if not target.exists()]


def test_the_readme_is_short_and_its_code_runs_past_a_compiler():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 110
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1 and len(blocks[0].splitlines()) <= 20
    compile(blocks[0], "README.md", "exec")


def test_pages_are_found_from_the_readme():
    """Each page is linked by the README or by a page that it links to."""
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page.is_dir():
            todo += page.glob("*.md")
        elif page.suffix == ".md" and page not in seen:
            seen.add(page)
            todo += links(page)
    assert not [str(page.relative_to(ROOT)) for page in PAGES if page not in seen]


def test_words_of_the_glossary_are_used():
    sources = [p for folder in ("csrc", "shaders", "torch_aule") for p in (ROOT / folder).glob("**/*.*")]
    text = "\n".join(p.read_text() for p in sources if p.suffix in (".cpp", ".h", ".comp", ".glsl", ".def", ".py"))
    used = set(re.findall(r"\w+", text.lower()))
    words = [
        word
        for line in (ROOT / "docs/design/glossary.md").read_text().splitlines()
        if line.startswith("| ")
        for word in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]
    assert len(words) > 30
    assert not [w for w in words if not any(f in used for f in (w.lower(), w.lower() + "s")) and w not in text]


def rates(line):
    """Rounded rates of a record: {runner: text}, and times in microseconds."""
    known = {}
    for runner, result in line["results"].items():
        values = [v for v in (result.get("rate"), (result.get("median") or 0) * 1e3) if v]
        known[runner] = {str(round(v)) if v >= 10 else f"{v:.3g}" for v in values} | {f"{v:.3g}" for v in values}
    return known


def test_tables_of_performance_are_the_record():
    """A row that names its shapes: each cell is ours / CUDA / cuDNN of one line of the record with these shapes."""
    lines = [json.loads(x) for x in (ROOT / "benchmarks/results/nvidia-h200.jsonl").read_text().splitlines()]
    by_shapes = {}
    for line in lines:
        by_shapes.setdefault(line["shapes"], []).append(rates(line))
    text = (ROOT / "docs/use/performance.md").read_text().split("\n## ")[1]
    cells, wrong = 0, []
    for row in text.splitlines():
        columns = [cell.strip() for cell in row.strip("|").split("|")]
        shapes = next((cell for cell in columns[:2] if cell in by_shapes), None)
        for cell in columns[1:] if shapes else []:
            numbers = cell.split(" / ")
            if not all(re.fullmatch(r"[\d.]+", n) for n in numbers) or len(numbers) < 2:
                continue
            cells += 1
            if not any(
                all(number in known.get(runner, ()) for number, runner in zip(numbers, ("aule", "cuda", "cudnn")))
                for known in by_shapes[shapes]
            ):
                wrong.append(f"{shapes}: {cell}")
    assert cells > 140 and not wrong, "\n".join(wrong)


def test_numbers_of_the_readme_are_those_of_the_performance_page():
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/use/performance.md"))
    table = re.search(r"\| case \| torch_aule \| CUDA \|.*?\n\n", readme, re.DOTALL)[0].splitlines()[2:]
    assert len([row for row in table if row]) == 8
    for row in filter(None, table):
        ours, theirs = (cell.strip() for cell in row.strip("|").split("|")[1:3])
        numbers = {ours, theirs}
        assert any(numbers <= set(re.findall(r"[\d.]+", line)) for line in page.splitlines()), row


def test_the_defaults_of_environment_variables():
    """Of those that the page has a column for: a flag is unset, or `1` where it begins as true; a number is itself."""
    page = (ROOT / "docs/use/environment.md").read_text()
    rows = re.findall(r'X\((\w+), +\w+, +([^"\n]+), +"(\w+)"\)', (ROOT / "csrc/core/environment.h").read_text())
    stated = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE))
    compared = [
        (variable, {"false": "unset", "true": "`1`"}.get(default, default), stated[variable])
        for kind, default, variable in rows
        if kind in ("bool", "double") and not stated.get(variable, "`attention").startswith("`attention")
    ]
    assert len(compared) > 5 and not [entry for entry in compared if entry[1] != entry[2]]
