"""The folders behind PersistentVolumes."""

from __future__ import annotations

from pathlib import Path

from modelyard.local.laptop.directories import VolumeDirectories


async def test_a_folder_goes_with_what_a_program_made_read_only_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(0o500)
    (tmp_path / "volumes").mkdir()
    directories = VolumeDirectories(tmp_path / "volumes")
    directories.create("u1")
    folder = tmp_path / "volumes" / "u1"
    (folder / "cache" / "package").mkdir(parents=True)
    (folder / "cache" / "package" / "file").write_text("x")
    (folder / "cache" / "out").symlink_to(outside)
    (folder / "cache" / "package").chmod(0o500)
    (folder / "cache").chmod(0o500)
    await directories.remove("u1")
    assert not folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o500


async def test_removing_twice_is_fine_and_nothing_but_a_folder_of_the_root_is_removed(tmp_path: Path) -> None:
    (tmp_path / "volumes").mkdir()
    directories = VolumeDirectories(tmp_path / "volumes")
    directories.create("u1")
    for uid in ("u1", "u1", "", ".", "..", "../volumes"):
        await directories.remove(uid)
    assert list(tmp_path.iterdir()) == [tmp_path / "volumes"]


def test_the_mode_that_a_program_gave_its_folder_is_kept(tmp_path: Path) -> None:
    directories = VolumeDirectories(tmp_path)
    directories.create("u1")
    (tmp_path / "u1").chmod(0o700)
    directories.create("u1")
    assert (tmp_path / "u1").stat().st_mode & 0o777 == 0o700
