"""The books of a paged cache: what is shared, kept and given back. Nothing of them is on a device."""

import random

import pytest

pytest.importorskip("transformers")  # of the package

from torch_aule.llm.pages import PageBooks  # noqa: E402


def test_prefixes():
    books = PageBooks(9, 4)
    text = list(range(10))
    assert books.find(text) == [] and books.pages_of(9) == 3 and books.available == 8
    pages = books.take(3)
    assert 0 not in pages and len(set(pages)) == 3
    books.keep(pages, text)
    assert books.find(text) == pages[:2]
    assert books.find(text[:8]) == pages[:1]  # a token is left over
    assert books.find([*text[:7], 99, 5]) == pages[:1]
    assert books.find([99, *text[1:]]) == []
    again = books.take(3, books.find(text))
    assert again[:2] == pages[:2] and again[2] not in pages and books.in_use == 4
    books.release(pages)
    books.release(again)
    assert books.in_use == 0 and books.available == 8 and books.find(text) == pages[:2]
    others = books.take(8)  # their memory is needed
    assert sorted(others) == list(range(1, 9)) and books.find(text) == []
    with pytest.raises(MemoryError, match="1 pages are needed, but 0"):
        books.take(1)
    books.release(others)


def test_what_was_used_longest_ago_goes_first():
    books = PageBooks(5, 2)
    texts = [[i, i, 9] for i in range(4)]
    for text in texts:
        pages = books.take(1)
        books.keep(pages, text[:2])
        books.release(pages)
    books.release(books.take(1, books.find(texts[0])))  # used again
    books.release(books.take(1))
    assert [bool(books.find(text)) for text in texts] == [True, False, True, True]
    books.clear()
    assert not any(books.find(text) for text in texts) and books.available == 4


def test_a_prefix_is_shared_while_its_memory_is_wanted():
    """Pages that are found are not those that make room for the new ones."""
    books = PageBooks(4, 2)
    pages = books.take(2)
    books.keep(pages, [1, 2, 3, 4])
    books.release(pages)
    found = books.find([1, 2, 3, 4, 5])
    assert found == pages
    with pytest.raises(MemoryError, match="2 pages are needed, but 1"):
        books.take(4, found)
    assert books.in_use == 0
    taken = books.take(3, found)
    assert taken[:2] == found and len(set(taken)) == 3


def test_two_prefixes_of_one_hash(monkeypatch):
    import torch_aule.llm.pages as module

    monkeypatch.setattr(module, "hash", lambda x: 7, raising=False)
    books = PageBooks(5, 2)
    pages = books.take(2)
    books.keep(pages, [1, 2, 3, 4])
    assert books.find([1, 2, 3, 4, 5]) == pages[:1] and books.find([3, 4, 5]) == []
    books.release(pages)
    assert books.available == 4


def test_random_programs():
    books, held = PageBooks(20, 3), []
    for _ in range(2000):
        if held and random.random() < 0.5:
            books.release(held.pop(random.randrange(len(held))))
        else:
            text = [random.randint(0, 1) for _ in range(random.randint(1, 14))]
            found = books.find(text)
            count = books.pages_of(len(text) + 1)
            try:
                pages = books.take(count, found)
            except MemoryError:
                continue
            assert pages[: len(found)] == found and len(set(pages)) == count
            books.keep(pages, text)
            held.append(pages)
        assert books.in_use == len({page for pages in held for page in pages})
        assert books.in_use + books.available == 19
    for pages in held:
        books.release(pages)
    assert books.in_use == 0


def test_errors():
    for pages, size in ((1, 4), (2, 0)):
        with pytest.raises(ValueError, match="at least 2 pages"):
            PageBooks(pages, size)
