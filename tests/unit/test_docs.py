"""Pages that people read: no link into nothing, no fact that is cited and not told."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def test_every_fact_that_a_comment_cites_is_told() -> None:
    told = set(re.findall(r"\b[EV]\d+\b", (ROOT / "docs" / "facts.md").read_text("utf-8")))
    for file in (*ROOT.glob("stowplan/**/*.py"), *ROOT.glob("extender/*.py")):
        cited = set(re.findall(r"\b[EV]\d{1,2}\b", file.read_text("utf-8")))
        assert cited <= told, file.name
