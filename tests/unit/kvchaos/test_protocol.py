from kvchaos.protocol import mismatch


def test_the_same_version_fits_whatever_the_packages_are() -> None:
    assert mismatch("1.0", 3, "1.4", 3) == ""


def test_the_older_side_is_the_one_to_upgrade() -> None:
    assert mismatch("2.0", 2, "1.0", 1).endswith("upgrade the sidecar to kvchaos 2.0")
    assert mismatch("1.0", 1, "2.0", 2).endswith("upgrade the cache server's environment to kvchaos 2.0")


def test_a_side_that_does_not_say_is_unknown() -> None:
    assert "the client is kvchaos (unknown) with protocol version 0" in mismatch("", 0, "2.0", 2)
