"""On which file system a folder lies, told from a list of mounts, and which ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_md.errors import StateDirUnusable
from agent_md.settings import load_settings
from agent_md.stores.local_disk import file_system_of, require_local_disk
from agent_md.stores.state_dir import make_state_dir
from agent_md.system.linux import Linux
from agent_md.system.posix import Posix


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder whose path is what it seems."""
    return tmp_path.resolve()


def mounts(root: Path, *lines: str) -> Linux:
    """A system with a list as in /proc/self/mounts; `@` stands for the root, a blank in a target is to be written as `\\040`."""
    listed = root / "proc/self/mounts"
    listed.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line} rw,relatime 0 0\n" for line in ("overlay / overlay", *lines))
    listed.write_text(text.replace("@", str(root)), encoding="utf-8", errors="surrogateescape")
    return Linux(root / "proc")


class TestFileSystemOf:
    def test_the_mount_above(self, root: Path) -> None:
        assert file_system_of(root / "a", mounts(root)) == "overlay"
        assert file_system_of(root / "a", mounts(root, "/dev/sdb1 @ ext4")) == "ext4"
        assert file_system_of(root / "a", mounts(root, "/dev/sdb1 @/a ext4")) == "ext4"
        assert file_system_of(root / "a", mounts(root, "/dev/sdb1 @/a/b ext4")) == "overlay"

    @pytest.mark.parametrize("order", [1, -1])
    def test_the_deepest_of_nested_mounts(self, root: Path, order: int) -> None:
        nested = mounts(root, *["server:/home @ nfs4", "/dev/sdb1 @/a ext4", "tmpfs @/a/b tmpfs"][::order])
        places = {"x": "nfs4", "a": "ext4", "a/x": "ext4", "a/b": "tmpfs", "a/b/c/d": "tmpfs", "a/bc": "ext4"}
        assert {place: file_system_of(root / place, nested) for place in places} == places

    def test_a_name_that_only_begins_alike_is_another(self, root: Path) -> None:
        assert file_system_of(root / "share-local", mounts(root, "server:/x @/share nfs")) == "overlay"

    def test_the_last_of_several_on_one_place(self, root: Path) -> None:
        over = mounts(root, "/dev/sdb1 @/a ext4", "server:/x @/a nfs")
        assert file_system_of(root / "a/b", over) == "nfs"

    def test_a_bind_mount_has_the_type_of_what_it_shows(self, root: Path) -> None:
        bound = mounts(root, "server:/x @/far nfs4", "server:/x @/near nfs4", "/dev/sda1 @/far/here ext4")
        assert file_system_of(root / "near/state", bound) == "nfs4"
        assert file_system_of(root / "far/here", bound) == "ext4"

    @pytest.mark.parametrize(
        ("name", "listed"),
        [
            ("my share", r"my\040share"),
            ("tab\there", r"tab\011here"),
            ("line\nbreak", r"line\012break"),
            ("back\\slash", r"back\134slash"),
            ("no\\040blank", r"no\134040blank"),
            ("hash#", r"hash\043"),
            ("naïve\u2028\x85\x0c", "naïve\u2028\x85\x0c"),
            ("broken\udcff", "broken\udcff"),
        ],
    )
    def test_names_are_listed_with_escapes(self, root: Path, name: str, listed: str) -> None:
        shares = mounts(root, rf"//server/{listed} @/{listed} cifs")
        assert file_system_of(root / name / "state", shares) == "cifs"
        assert file_system_of(root / "state", shares) == "overlay"

    def test_links_are_followed(self, root: Path) -> None:
        (root / "link").symlink_to(root / "share")
        assert file_system_of(root / "link/state", mounts(root, "server:/x @/share nfs")) == "nfs"

    def test_no_list_no_answer(self, root: Path) -> None:
        assert file_system_of(root, Linux(root / "missing")) is None
        assert file_system_of(root, Posix()) is None
        nothing = mounts(root)
        (root / "proc/self/mounts").write_text("\nnonsense\n")
        assert file_system_of(root, nothing) is None

    def test_this_machine(self, root: Path) -> None:
        assert file_system_of(Path("/proc")) in ("proc", None)  # None: it is no Linux
        require_local_disk(root)


SHARED = [
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "ocfs2", "gfs2", "davfs", "drvfs"),
    *("virtiofs", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs", "fakeowner", "osxfs", "fuse.osxfs", "grpcfuse"),
    *("fuse", "fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "fuse.gcsfuse", "fuse.never-heard-of", "never-heard-of"),
    *("ext", "ext44", "xfs.nfs", "EXT4", ""),
]
LOCAL = [
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "f2fs",
    "bcachefs",
    "tmpfs",
    "overlay",
    "apfs",
    "hfs",
    "fuseblk",
]


class TestRequireLocalDisk:
    @pytest.mark.parametrize("kind", SHARED)
    def test_what_is_not_known_to_be_local_is_refused(self, root: Path, kind: str) -> None:
        table = mounts(root, f"server:/x @/share {kind}")
        with pytest.raises(StateDirUnusable) as caught:
            require_local_disk(root / "share/.agentmd", table, user_config=Path("/home/me/config.yaml"))
        said = str(caught.value)
        assert f"of the type {kind}, which is not known to be a local disk" in said
        assert "Set `state_dir`" in said
        assert f"`allow_state_on: [{kind}]` into /home/me/config.yaml" in said

    @pytest.mark.parametrize("kind", LOCAL)
    def test_local_ones_are_not(self, root: Path, kind: str) -> None:
        local = mounts(root, f"/dev/x @/share {kind}")
        assert file_system_of(root / "share/.agentmd", local) == kind
        assert passes(root / "share/.agentmd", local)

    def test_the_user_may_allow_one_more_type_and_only_that(self, root: Path) -> None:
        table = mounts(root, "x @/a fuse.gocryptfs", "x @/b fuse.sshfs", "x @/c fuse")
        assert [passes(root / name, table, "fuse.gocryptfs") for name in "abc"] == [True, False, False]

    def test_a_local_mount_inside_a_network_one_is_local(self, root: Path) -> None:
        table = mounts(root, "server:/home @/home nfs", "/dev/sda1 @/home/me ext4")
        assert passes(root / "home/me", table)
        assert not passes(root / "home/you", table)

    def test_where_nothing_is_listed_it_passes(self, root: Path) -> None:
        assert passes(root, Linux(root / "missing"))


class TestMakeStateDir:
    """As it is wired: on this machine's own mounts, with the user's config."""

    def test_the_folder_of_the_database_counts_too_and_the_user_allows(self, root: Path) -> None:
        (root / "ws/agents").mkdir(parents=True)
        (root / "ws/config.yaml").write_text("database: /proc/self/agentmd.db")
        with pytest.raises(StateDirUnusable, match=r"/proc/self is on a file system of the type proc.*/agentmd/config"):
            make_state_dir(load_settings(root / "ws", environ={}, cwd=root, home=root))
        (root / ".config/agentmd").mkdir(parents=True)
        (root / ".config/agentmd/config.yaml").write_text("allow_state_on: [proc]")
        make_state_dir(load_settings(root / "ws", environ={}, cwd=root, home=root))
        assert (root / "ws/.agentmd/.gitignore").exists()


def passes(folder: Path, table: Linux, *allowed: str) -> bool:
    try:
        require_local_disk(folder, table, allowed=allowed)
    except StateDirUnusable:
        return False
    return True
