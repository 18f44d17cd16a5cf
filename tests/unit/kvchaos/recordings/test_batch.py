"""The identity of a batch."""

from hypothesis import given
from hypothesis import strategies as st

from kvchaos.keys import ObjectKey
from kvchaos.recordings.batch import batch_id, canonical_order

texts = st.text("abc01", max_size=3)
keys = st.builds(
    ObjectKey, st.binary(min_size=1, max_size=2), texts, st.integers(0, 11), st.integers(0, 11), texts
)


@given(st.lists(keys, max_size=6), st.randoms())
def test_the_order_of_the_keys_does_not_matter(batch: list[ObjectKey], random: object) -> None:
    shuffled = list(batch)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert batch_id(shuffled) == batch_id(batch)
    assert [batch[at] for at in canonical_order(batch)] == [shuffled[at] for at in canonical_order(shuffled)]


@given(st.lists(keys, max_size=4), st.lists(keys, max_size=4))
def test_other_keys_have_another_identity(first: list[ObjectKey], second: list[ObjectKey]) -> None:
    assert (batch_id(first) == batch_id(second)) == (sorted(first) == sorted(second))
