import os
from pathlib import Path

import pytest

from kvchaos_sidecar.backends.slabs import SlabPool
from kvchaos_sidecar.rpc.handoff import require_read_only


def test_descriptors_that_cannot_write_may_be_handed_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    slab = SlabPool(100, "test").allocate(10)
    assert slab is not None
    os.pwrite(slab.extent.descriptor, b"x" * 10, 0)
    slab.seal()
    require_read_only([descriptor, slab.extent.descriptor])
    os.close(descriptor)
    slab.free()


def test_a_writable_descriptor_is_a_mistake(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    with pytest.raises(RuntimeError, match="writable"):
        require_read_only([descriptor])
    os.close(descriptor)


def test_a_slab_that_is_not_sealed_is_a_mistake() -> None:
    slab = SlabPool(100, "test").allocate(10)
    assert slab is not None
    with pytest.raises(RuntimeError, match="writable"):
        require_read_only([slab.extent.descriptor])
    slab.free()
