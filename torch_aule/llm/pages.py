"""The books of a paged key-value cache: who has which page, and which pages hold a prefix that is computed already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["PageBooks"]

SCRATCH = 0  # the page of rows that belong to nobody


class PageBooks:
    """Counts the users of each page, and finds pages by the tokens that they and the pages before them hold.

    The host keeps these books for all layers at once: page ``i`` is page ``i`` of every layer's cache. Page 0 is never
    given out. A page that is full of known tokens is kept after its last user has left, until its memory is needed;
    the page that was used longest ago goes first.

    Parameters
    ----------
    pages : int
        Pages of each cache, page 0 included.
    page_size : int
        Tokens of a page.

    Raises
    ------
    ValueError
        For less than two pages, or pages without rows.
    """

    def __init__(self, pages: int, page_size: int):
        if pages < 2 or page_size < 1:
            raise ValueError(
                f"PageBooks: expected at least 2 pages of at least 1 token, but got {pages} pages of {page_size}"
            )
        self.page_size = page_size
        self._users = [0] * pages
        self._free = list(range(1, pages))[::-1]  # without tokens that are worth keeping
        self._kept: OrderedDict[int, None] = OrderedDict()  # without users, the one used longest ago first
        self._page_of: dict[int, int] = {}  # of a prefix
        self._prefix_of: dict[int, int] = {}  # of a page
        self._tokens_of: dict[int, tuple[int | None, tuple[int, ...]]] = {}

    @property
    def total(self) -> int:
        """Pages that can be given out."""
        return len(self._users) - 1

    @property
    def available(self) -> int:
        """Pages that can be taken, those that keep a prefix included."""
        return len(self._free) + len(self._kept)

    @property
    def in_use(self) -> int:
        """Pages that somebody has."""
        return self.total - self.available

    def pages_of(self, tokens: int) -> int:
        """The number of pages that a text of some length needs."""
        return -(-tokens // self.page_size)

    def _prefixes(self, tokens: Sequence[int]):
        """For each full page: the name of what it ends, and its own tokens."""
        before: int | None = None
        for i in range(0, len(tokens) - self.page_size + 1, self.page_size):
            own = tuple(tokens[i : i + self.page_size])
            name = hash((before, own))
            yield name, before, own
            before = name

    def find(self, tokens: Sequence[int]) -> list[int]:
        """The pages that hold the longest known prefix, without taking them.

        Parameters
        ----------
        tokens : sequence of int
            Of a prompt.

        Returns
        -------
        list of int
            Full pages, in order; at least one token of the prompt is left over, which yields the next one.
        """
        found = []
        for name, before, own in self._prefixes(tokens[: max(len(tokens) - 1, 0)]):
            page = self._page_of.get(name)
            if page is None or self._tokens_of[name] != (before, own):  # two prefixes of one hash
                break
            found.append(page)
        return found

    def take(self, count: int, shared: Sequence[int] = ()) -> list[int]:
        """Take pages: known ones that others may have too, and new ones.

        Parameters
        ----------
        count : int
            Pages in all.
        shared : sequence of int
            The first of them, from :meth:`find`.

        Returns
        -------
        list of int
            `shared`, then new pages.

        Raises
        ------
        MemoryError
            If there are not enough; nothing has been taken then.
        """
        new = count - len(shared)
        kept = sum(1 for page in shared if page in self._kept)
        if new > self.available - kept:
            raise MemoryError(f"PageBooks: {new} pages are needed, but {self.available - kept} are available")
        for page in shared:
            self._kept.pop(page, None)
            self._users[page] += 1
        pages = list(shared)
        for _ in range(new):
            page = self._free.pop() if self._free else self._forget(next(iter(self._kept)))
            self._users[page] = 1
            pages.append(page)
        return pages

    def _forget(self, page: int) -> int:
        self._kept.pop(page, None)
        name = self._prefix_of.pop(page)
        del self._page_of[name], self._tokens_of[name]
        return page

    def keep(self, pages: Sequence[int], tokens: Sequence[int]) -> None:
        """Say what full pages hold, so that :meth:`find` finds them.

        Parameters
        ----------
        pages : sequence of int
            Of one sequence, from its beginning.
        tokens : sequence of int
            That are in these pages; the last page is left out unless it is full.
        """
        for page, (name, before, own) in zip(pages, self._prefixes(tokens)):
            if name not in self._page_of and page not in self._prefix_of:
                self._page_of[name], self._prefix_of[page], self._tokens_of[name] = page, name, (before, own)

    def release(self, pages: Sequence[int]) -> None:
        """Give pages back; those that hold a known prefix are kept while nobody needs their memory.

        Parameters
        ----------
        pages : sequence of int
            From :meth:`take`, each once.
        """
        for page in reversed(pages):  # the end of a prefix is of no use without its beginning
            self._users[page] -= 1
            if self._users[page] > 0:
                continue
            if page in self._prefix_of:
                self._kept[page] = None
            else:
                self._free.append(page)

    def clear(self) -> None:
        """Forget the prefixes of pages that nobody has."""
        for page in list(self._kept):
            self._free.append(self._forget(page))
