import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from stowplan.api.errors import InvalidObjectError, Violation
from stowplan.api.objects import Json, Object
from stowplan.kube.files import FileSource
from stowplan.kube.reading import MOST_BYTES

DEADLINE_SECONDS = 10
INTERVAL_SECONDS = 0.01


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def pod(name: str, namespace: str = "team-a") -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def listed(*items: object) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def write(file: Path, content: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def names(objects: list[Object]) -> list[str]:
    return [each.name for each in objects]


def load(*paths: Path) -> list[Object]:
    return FileSource(paths).load()


def broken(*paths: Path) -> list[str]:
    """Return the violations as people read them, with paths relative to the first."""
    with pytest.raises(InvalidObjectError) as refused:
        load(*paths)
    root = paths[0] if paths[0].is_dir() else paths[0].parent
    return [str(violation).replace(f"{root}/", "") for violation in refused.value.violations]


class TestLoad:
    def test_a_file_may_hold_one_object(self, tmp_path: Path) -> None:
        assert load(write(tmp_path / "node.json", node("n1"))) == [Object.of(node("n1"))]

    def test_a_file_may_hold_a_list_as_kubectl_prints_it(self, tmp_path: Path) -> None:
        file = write(tmp_path / "all.json", listed(node("n1"), pod("p1"), pod("p1", "team-b")))
        assert names(load(file)) == ["n1", "p1", "p1"]

    @pytest.mark.parametrize("items", [[], None])
    def test_a_list_may_be_empty(self, items: object, tmp_path: Path) -> None:
        file = write(tmp_path / "pods.json", {"apiVersion": "v1", "kind": "List", "items": items})
        assert load(file) == []

    def test_items_of_a_node_list_inherit_what_kube_apiserver_leaves_out(
        self, tmp_path: Path
    ) -> None:
        answer = {
            "apiVersion": "v1",
            "kind": "NodeList",
            "items": [{"metadata": {"name": "n1", "labels": {}}}],
        }
        [found] = load(write(tmp_path / "nodes.json", answer))
        assert (found.api_version, found.title) == ("v1", "Node n1")

    def test_a_kind_that_ends_in_list_is_an_object_when_it_has_no_items(
        self, tmp_path: Path
    ) -> None:
        allow = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}}
        assert load(write(tmp_path / "a.json", allow)) == [Object.of(allow)]

    def test_yaml_may_hold_several_documents_and_lists(self, tmp_path: Path) -> None:
        documents = "\n---\n".join(map(json.dumps, [node("n1"), listed(node("n2"), pod("p1"))]))
        assert names(load(write(tmp_path / "all.yaml", documents))) == ["n1", "n2", "p1"]

    def test_a_folder_is_read_in_the_order_of_its_names(self, tmp_path: Path) -> None:
        write(tmp_path / "b.yaml", node("third"))
        write(tmp_path / "a" / "z.yml", node("second"))
        write(tmp_path / "a" / "a.json", node("first"))
        write(tmp_path / "README.md", "not an object")
        write(tmp_path / ".hidden.json", "not an object")
        assert names(load(tmp_path)) == ["first", "second", "third"]

    def test_paths_are_read_in_their_own_order_and_no_file_twice(self, tmp_path: Path) -> None:
        late = write(tmp_path / "z.json", node("z"))
        write(tmp_path / "a.json", node("a"))
        assert names(load(late, tmp_path)) == ["z", "a"]
        assert names(load(tmp_path, tmp_path)) == ["a", "z"]

    def test_a_mounted_config_map_is_read_once(self, tmp_path: Path) -> None:
        write(tmp_path / "..2024_01_01" / "nodes.json", node("n1"))
        (tmp_path / "..data").symlink_to("..2024_01_01")
        (tmp_path / "nodes.json").symlink_to("..data/nodes.json")
        assert names(load(tmp_path)) == ["n1"]

    def test_a_link_to_a_folder_is_followed_but_not_in_circles(self, tmp_path: Path) -> None:
        write(tmp_path / "elsewhere" / "n.json", node("n1"))
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "folder")
        assert names(load(tmp_path / "folder")) == ["n1"]

    def test_objects_of_different_groups_may_share_kind_and_name(self, tmp_path: Path) -> None:
        ours = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
        theirs = {**ours, "apiVersion": "batch.volcano.sh/v1alpha1"}
        assert len(load(write(tmp_path / "jobs.json", listed(ours, theirs)))) == 2


class TestRefusal:
    def test_every_violation_of_every_file_is_listed(self, tmp_path: Path) -> None:
        write(tmp_path / "a.json", "{")
        write(tmp_path / "b.json", listed({"kind": "Node", "metadata": {}}, 7, node("n1")))
        write(tmp_path / "c.yaml", "kind: Node\napiVersion: v1\n---\n" + json.dumps(node("n1")))
        assert broken(tmp_path) == [
            "a.json: must be JSON: unexpected end of data: line 1 column 2 (char 1); mend it there",
            "b.json: items[0].apiVersion: must be set; write it",
            "b.json: items[0].metadata.name: must be set; write it",
            "b.json: items[1]: must be an object (got 'int'); write kind, apiVersion …",
            "c.yaml: document[0].metadata.name: must be set; write it",
            "c.yaml: document[1].metadata.name: must be the only Node of this name; "
            "first found at b.json: items[2] (got 'n1'); remove one of the two",
        ]

    @pytest.mark.parametrize(
        ("content", "want"),
        [
            pytest.param(
                listed(pod("p"), pod("p")),
                "a.json: items[1].metadata.name: must be the only Pod of this name; "
                "first found at a.json: items[0] (got 'team-a/p'); remove one of the two",
                id="the same pod twice",
            ),
            pytest.param(
                {**listed(), "items": {"a": 1}},
                "a.json: items: must be a list (got 'dict'); write [] for none",
                id="items that are no list",
            ),
            pytest.param("[]", "a.json: must be an object (got 'list')", id="a bare list"),
            pytest.param("null", "a.json: must be an object (got 'NoneType')", id="null"),
            pytest.param(
                {**node("n"), "kind": 7},
                "a.json: kind: must be a string with text in it (got 7); mend it",
                id="a number for a kind",
            ),
            pytest.param(
                {**node("n"), "metadata": "n"},
                "a.json: metadata.name: must be a string with text in it (got 'n')",
                id="text for metadata",
            ),
            pytest.param(
                node(""),
                "a.json: metadata.name: must be a string with text in it (got '')",
                id="an empty name",
            ),
            pytest.param(
                pod("p", namespace=3),  # type: ignore[arg-type]  # what JSON may hold
                "a.json: metadata.namespace: must be a string with text in it (got 3)",
                id="a number for a namespace",
            ),
            pytest.param(
                {"apiVersion": None, "kind": "PodList", "items": [{"metadata": {"name": "p"}}]},
                "a.json: items[0].apiVersion: must be set; write it",
                id="nothing to inherit",
            ),
        ],
    )
    def test_an_object_that_cannot_be_told_from_others_is_refused(
        self, content: object, want: str, tmp_path: Path
    ) -> None:
        [found] = broken(write(tmp_path / "a.json", content))
        assert found.startswith(want)

    def test_a_path_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        assert broken(tmp_path / "nodes.json", tmp_path / "folder") == [
            "nodes.json: must be a file or folder that we can read: No such file or directory; "
            "check the path and its mode",
            "folder: must be a file or folder that we can read: No such file or directory; "
            "check the path and its mode",
        ]

    def test_an_empty_folder_is_named_even_beside_a_full_one(self, tmp_path: Path) -> None:
        write(tmp_path / "full" / "a.json", node("n1"))
        write(tmp_path / "empty" / "notes.txt", "nothing here")
        [found] = broken(tmp_path / "full", tmp_path / "empty")
        assert "/empty: must be a folder with a file of .json or .yaml or .yml in it" in found

    def test_a_file_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        [found] = broken(write(tmp_path / "nodes.txt", node("n1")))
        assert found.startswith("nodes.txt: must be a folder, or a file whose name ends in .json")

    def test_a_link_that_leads_nowhere_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "loop.json").symlink_to("loop.json")
        (tmp_path / "gone.json").symlink_to("nowhere")
        assert [found.split(": ")[0] for found in broken(tmp_path)] == ["gone.json", "loop.json"]

    def test_a_pipe_is_refused_instead_of_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.json")
        assert broken(tmp_path) == ["pipe.json: must be a regular file; copy it to one"]

    def test_a_file_too_large_is_refused_unread(self, tmp_path: Path) -> None:
        with (tmp_path / "huge.json").open("wb") as file:
            file.truncate(MOST_BYTES + 1)
        [found] = broken(tmp_path)
        assert found.startswith(f"huge.json: must not be larger than {MOST_BYTES} bytes")


@dataclass
class Watched:
    """What a watch has called, in order."""

    calls: list[list[str]] = field(default_factory=list)
    refusals: list[InvalidObjectError] = field(default_factory=list)
    logged: list[Any] = field(default_factory=list)

    async def take(self, objects: list[Object]) -> None:
        if "unwanted" in names(objects):
            wrong = Violation("metadata.name", "invalid", "unwanted", "must be wanted", "rename it")
            raise InvalidObjectError("the cluster", [wrong])
        self.calls.append(names(objects))

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.logged]


@asynccontextmanager
async def watching(source: FileSource) -> AsyncIterator[Watched]:
    watched = Watched()
    with capture_logs() as logged:
        watched.logged = logged
        watch = source.watch(INTERVAL_SECONDS, watched.take, watched.refusals.append)
        task = asyncio.create_task(watch)
        yield watched
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def poll(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not what():  # noqa: ASYNC110
            await asyncio.sleep(INTERVAL_SECONDS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "nodes.json", node("n1"))


@pytest.fixture
def source(file: Path) -> FileSource:
    """Return a source that has loaded its first version."""
    loaded = FileSource([file.parent])
    loaded.load()
    return loaded


Put = Callable[[str, object], Awaitable[Path]]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a file whole, as careful writers do, without blocking the loop."""

    def replace(name: str, content: object) -> Path:
        unfinished = write(tmp_path / ".unfinished", content)
        return unfinished.replace(tmp_path / name)

    return lambda name, content: asyncio.to_thread(replace, name, content)


class TestWatch:
    async def test_a_new_version_is_taken_over(self, source: FileSource, put: Put) -> None:
        async with watching(source) as watched:
            await put("nodes.json", node("n2"))
            await poll(lambda: watched.calls == [["n2"]])
            await put("more.json", node("n0"))
            await poll(lambda: watched.calls == [["n2"], ["n0", "n2"]])
        assert watched.events() == ["files loaded", "files loaded"]
        assert not watched.refusals

    async def test_what_was_never_loaded_is_loaded_first(self, file: Path) -> None:
        async with watching(FileSource([file])) as watched:
            await poll(lambda: watched.calls == [["n1"]])

    async def test_a_broken_version_is_refused_once_and_the_next_good_one_is_taken(
        self, source: FileSource, put: Put
    ) -> None:
        async with watching(source) as watched:
            await put("nodes.json", listed({}, {}))
            await poll(lambda: len(watched.refusals) == 1)
            assert len(watched.refusals[0].violations) == 6
            [entry] = watched.logged
            assert entry["log_level"] == "error"
            assert len(entry["violations"]) == 6
            await put("nodes.json", node("n3"))
            await poll(lambda: watched.calls == [["n3"]])
        assert len(watched.refusals) == 1

    async def test_a_version_that_its_reader_refuses_counts_as_broken(
        self, source: FileSource, put: Put
    ) -> None:
        async with watching(source) as watched:
            await put("nodes.json", node("unwanted"))
            await poll(lambda: len(watched.refusals) == 1)
        assert watched.calls == []
        assert "must be wanted" in str(watched.refusals[0])

    async def test_the_same_content_calls_nothing(self, source: FileSource, put: Put) -> None:
        async with watching(source) as watched:
            await put("nodes.json", node("n1"))
            await put("later.json", node("n9"))
            await poll(lambda: watched.calls == [["n9", "n1"]])
        assert watched.events() == ["files loaded"]

    async def test_going_back_to_the_last_good_version_is_said_and_calls_nothing(
        self, source: FileSource, put: Put
    ) -> None:
        async with watching(source) as watched:
            await put("nodes.json", "{")
            await poll(lambda: len(watched.refusals) == 1)
            await put("nodes.json", node("n1"))
            await poll(lambda: len(watched.logged) == 2)
        assert watched.events()[1] == "files are back at the last good version"
        assert watched.calls == []

    async def test_files_that_vanish_are_refused(self, source: FileSource, file: Path) -> None:
        async with watching(source) as watched:
            await asyncio.to_thread(file.unlink)
            await poll(lambda: len(watched.refusals) == 1)
        assert watched.calls == []
        assert "must be a folder with a file" in str(watched.refusals[0])

    async def test_a_file_that_is_still_being_written_is_waited_for(
        self, source: FileSource, put: Put
    ) -> None:
        watched = Watched()
        for unfinished in ("{", '{"kind": "Node"', json.dumps(node("n2"))):
            await put("nodes.json", unfinished)
            await source.look(watched.take, watched.refusals.append)
            assert watched == Watched()
        await source.look(watched.take, watched.refusals.append)
        assert watched == Watched(calls=[["n2"]])
