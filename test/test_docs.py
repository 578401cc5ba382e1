"""docs/ says what the code does: the files and functions that it names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
STEP = re.compile(r"\| (\d+) \| .* \| `([^`]+)` \| (\S+) \|$")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_are_named_exist(page):
    named = re.findall(
        r"(?<![\w/.])((?:csrc|shaders|torch_aule|test|tools)/[\w/.]+\.(?:cpp|h|comp|glsl|def|py|sh|md))",
        page.read_text(),
    )
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


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
        first = re.search(r"`shaders/\w+/(\w+)\.(?:comp|glsl)`", text)
        if first is None or first[1] not in [path.stem for path in pointed.get(name, [])]:
            wrong.append(f"docs/ladders/{name}.md: the kernel that it names first does not point to it")
    assert len(pages) > 15 and not wrong, "\n".join(wrong)


def test_steps_of_the_walks_are_in_the_files_that_they_name():
    steps = [
        match.groups()
        for line in (ROOT / "docs/architecture.md").read_text().splitlines()
        if (match := STEP.match(line))
    ]
    assert len(steps) == 23
    wrong = [
        f"step {number}: {function} is not in {file}"
        for number, function, file in steps
        if not re.search(rf"(?<![\w]){re.escape(function)}\b", (ROOT / file).read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_the_page_of_environment_variables_is_complete():
    page = (ROOT / "docs/environment.md").read_text()
    sources = [
        p
        for folder in ("csrc", "torch_aule")
        for p in (ROOT / folder).glob("**/*.*")
        if p.suffix in (".cpp", ".h", ".py")
    ]
    text = "\n".join(path.read_text() for path in sources)
    read = set(re.findall(r'"((?:TORCH_)?AULE_[A-Z0-9_]*[A-Z0-9])"', text))
    features = set(re.findall(r'AULE_SWITCH\(\w+, "(\w+)"\)', text))
    written = set(re.findall(r"`((?:TORCH_)?AULE_[A-Z0-9_]*[A-Z0-9])`", page)) - {"AULE_DISABLE_COOPERATIVE_MATRIX"}
    assert len(features) > 15 and not {name for name in features if f"`{name}`" not in page}
    assert read - written == set(), "not in docs/environment.md"
    assert written - read == set(), "in docs/environment.md and nowhere else"


def test_quoted_lines_are_those_of_the_sources():
    """An indented block belongs to the last file that the text before it names."""
    wrong, quoted, source = [], 0, None
    for line in (ROOT / "docs/development/operator.md").read_text().splitlines():
        if not line.startswith("    "):
            named = re.match(r"`([\w/]+\.(?:comp|cpp|h))`", line)
            source = (ROOT / named[1]).read_text() if named else None if line.startswith("## 5") else source
        elif source is not None:
            quoted += 1
            wrong += [] if line.strip() in source else [line]
    assert quoted > 12 and not wrong, "\n".join(wrong)
