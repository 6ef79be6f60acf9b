"""Whether a regular expression can take more than linear time: a proof by its parse tree, and attacks made from it.

A pattern is safe if the next character alone decides every choice: whether a repetition continues, and which
alternative matches. Then backtracking tries no second way to match the same text. Parts that never backtrack
(possessive repetitions, atomic groups) need no such decision, unless a repetition around them matches them again.
"""

import re
from collections.abc import Iterator, Sequence
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

UNBOUNDED = int(c.MAXREPEAT)
SMALL = 64
"""Ways to match one text that a pattern may have outside of repetitions: a constant factor."""

Chars = frozenset[int]
END = frozenset({-1})
REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
CATEGORIES = {
    c.CATEGORY_DIGIT: r"\d", c.CATEGORY_NOT_DIGIT: r"\D", c.CATEGORY_SPACE: r"\s", c.CATEGORY_NOT_SPACE: r"\S",
    c.CATEGORY_WORD: r"\w", c.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


class Slow(Exception):
    """The pattern is not provably linear; the message says why."""


class Attack(NamedTuple):
    """A text of `prefix`, `pump` repeated many times, and `tail`."""

    prefix: str
    pump: str
    tail: str

    def text(self, length: int) -> str:
        return self.prefix + self.pump * (length // len(self.pump)) + self.tail


def check(pattern: "re.Pattern[Any]", searched: bool = False) -> None:
    """Raises `Slow`. `searched`: the pattern is tried at every position of a text, not only at its beginning."""
    Checker(pattern).check(searched)


class Checker:
    """The proof for one pattern, over the characters that its parts distinguish."""

    def __init__(self, pattern: "re.Pattern[Any]") -> None:
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self._flags = pattern.flags
        self._tree = list(_parser.parse(source, pattern.flags & ~re.UNICODE))
        edges = {code for found in _numbers(self._tree) for code in (found - 1, found, found + 1)}
        self._alphabet = frozenset(code for code in {*range(0x250), 0x2028, 0xFEFF, 0x1F600, *edges} if code >= 0)
        self._ways = 1

    def check(self, searched: bool) -> None:
        if self._flags & (re.IGNORECASE | re.LOCALE):
            raise Slow("ignores case, which this proof does not support")
        self._sequence(self._tree, END, looped=False)
        if searched and not self._is_searchable():
            raise Slow("a search matches the same repetition from many start positions")

    def attacks(self) -> Iterator[Attack]:
        """Texts that repeat what the pattern repeats, and then do not match."""
        for prefix, pump in self._pumps(self._tree):
            for tail in ("", "\x01", pump[:1] + "\x01", "!"):
                yield Attack(prefix, pump, tail)
                yield Attack("", prefix + pump, tail)

    def _sequence(self, items: Sequence[Any], follow: Chars, looped: bool) -> None:
        for index, (op, value) in enumerate(items):
            after = self._first(items[index + 1 :], follow)
            if op in REPEATS:
                self._repeat(op, *value, after, looped)
            elif op is c.BRANCH:
                self._branch(value[1], after, looped)
            elif op is c.SUBPATTERN:
                self._sequence(value[3], after, looped)
            elif op is c.ATOMIC_GROUP:
                self._sequence(value, after if looped else frozenset(), looped)
            elif op in (c.ASSERT, c.ASSERT_NOT):
                if looped and any(_unbounded(value[1])):
                    raise Slow("looks ahead without bound at each repetition")
                self._sequence(value[1], frozenset(), looped)
            elif op in (c.GROUPREF, c.GROUPREF_EXISTS):
                raise Slow("refers to a group")

    def _repeat(self, op: Any, minimum: int, maximum: int, body: Sequence[Any], after: Chars, looped: bool) -> None:
        first, many = self._first(body, frozenset()), maximum > 1
        if many and _is_nullable(body):
            raise Slow("repeats what may be nothing")
        if minimum != maximum and first & after:
            self._undecided(op, minimum, maximum, body, looped)
        self._sequence(body, (first if many else frozenset()) | after, looped or many)

    def _undecided(self, op: Any, minimum: int, maximum: int, body: Sequence[Any], looped: bool) -> None:
        """The next character does not decide whether the repetition continues."""
        if op is c.POSSESSIVE_REPEAT and not (looped and any(_unbounded(body))):
            return
        if looped or maximum == UNBOUNDED or (len(body) > 1 and maximum > 1):
            raise Slow("a repetition and what follows it begin alike")
        self._count(maximum - minimum + 1)

    def _branch(self, alternatives: Sequence[Sequence[Any]], after: Chars, looped: bool) -> None:
        seen: Chars = frozenset()
        for alternative in alternatives:
            first = self._first(alternative, after)
            if first & seen:
                if looped:
                    raise Slow("alternatives inside of a repetition begin alike")
                self._count(2)
            seen |= first
            self._sequence(alternative, after, looped)

    def _count(self, ways: int) -> None:
        self._ways *= ways
        if self._ways > SMALL:
            raise Slow(f"there are more than {SMALL} ways to read one text")

    def _is_searchable(self) -> bool:
        """Whether failed matches from different start positions cannot overlap: the pattern is anchored, or nothing can
        fail after its repetitions, or a character that must precede each repetition cannot occur in one."""
        items = list(_flat(self._tree))
        if items and items[0] in ((c.AT, c.AT_BEGINNING), (c.AT, c.AT_BEGINNING_STRING)):
            return not self._flags & re.MULTILINE
        read = frozenset[int]().union(*map(self._all, _in_vain(items, sure=True)))
        alternatives = items[0][1][1] if len(items) == 1 and items[0][0] is c.BRANCH else [items]
        return all(self._is_guarded(list(_flat(alternative)), read) for alternative in alternatives)

    def _is_guarded(self, items: Sequence[Any], read: Chars) -> bool:
        """Whether a character that repetitions before a failure cannot match must precede each repetition."""
        if not any(_in_vain(items, sure=True)):
            return True
        for op, value in items:
            if any(_unbounded([(op, value)])):
                return False
            if op in (c.LITERAL, c.IN, c.NOT_LITERAL) and not self._chars(op, value) & read:
                return True
        return False

    def _first(self, items: Sequence[Any], follow: Chars) -> Chars:
        """The characters that can come first in the items and what follows them."""
        found: Chars = frozenset()
        for item in items:
            found |= self._begin(item)
            if not _is_nullable([item]):
                return found
        return found | follow

    def _begin(self, item: Any) -> Chars:
        op, value = item
        if op in REPEATS:
            return self._first(value[2], frozenset())
        if op is c.BRANCH:
            return frozenset().union(*(self._first(one, frozenset()) for one in value[1]))
        if op is c.SUBPATTERN:
            return self._first(value[3], frozenset())
        if op is c.ATOMIC_GROUP:
            return self._first(value, frozenset())
        return frozenset() if op in (c.AT, c.ASSERT, c.ASSERT_NOT) else self._chars(op, value)

    def _all(self, items: Sequence[Any]) -> Chars:
        """Every character that the items can match."""
        return frozenset().union(*(self._chars(op, value) for op, value in _leaves(items)))

    def _chars(self, op: Any, value: Any) -> Chars:
        if op is c.LITERAL:
            return frozenset({value})
        if op is c.NOT_LITERAL:
            return self._alphabet - {value}
        if op is c.ANY:
            return self._alphabet if self._flags & re.DOTALL else self._alphabet - {ord("\n")}
        if op is c.IN:
            found: Chars = frozenset().union(*(self._chars(*part) for part in value if part[0] is not c.NEGATE))
            return self._alphabet - found if value[0][0] is c.NEGATE else found
        if op is c.RANGE:
            return frozenset(code for code in self._alphabet if value[0] <= code <= value[1])
        if op is c.CATEGORY:
            category = re.compile(CATEGORIES[value], self._flags & re.ASCII)
            return frozenset(code for code in self._alphabet if category.match(chr(code)))
        raise Slow(f"has {op}, which this proof does not support")

    def _pumps(self, items: Sequence[Any]) -> Iterator[tuple[str, str]]:
        """Pairs of (text before a repetition, text that it repeats)."""
        prefix = ""
        for op, value in items:
            below = _below(op, value)
            if op in REPEATS and value[1] == UNBOUNDED:
                for one in {self._sample(value[2], pick) for pick in (0, 1, -1)}:
                    yield prefix, one
            for sub in below:
                for before, pump in self._pumps(sub):
                    yield prefix + before, pump
                    if before:
                        yield prefix, before + pump
            prefix += self._sample([(op, value)], 0)

    def _sample(self, items: Sequence[Any], pick: int) -> str:
        """A short text that the items match."""
        text = ""
        for op, value in items:
            if op in REPEATS:
                text += self._sample(value[2], pick) * max(value[0], 1 if value[1] == UNBOUNDED else 0)
            elif op is c.BRANCH:
                text += self._sample(value[1][pick % len(value[1])], pick)
            elif op is c.SUBPATTERN:
                text += self._sample(value[3], pick)
            elif op is c.ATOMIC_GROUP:
                text += self._sample(value, pick)
            elif op not in (c.AT, c.ASSERT, c.ASSERT_NOT):
                codes = sorted(code for code in self._chars(op, value) if code >= 32) or sorted(self._chars(op, value))
                text += chr(codes[pick % len(codes)])
        return text


def _below(op: Any, value: Any) -> list[Any]:
    if op in REPEATS:
        return [value[2]]
    if op is c.BRANCH:
        return list(value[1])
    if op is c.SUBPATTERN:
        return [value[3]]
    if op is c.ATOMIC_GROUP:
        return [value]
    return [value[1]] if op in (c.ASSERT, c.ASSERT_NOT) else []


def _flat(items: Sequence[Any]) -> Iterator[Any]:
    """The items in order, with groups flattened."""
    for op, value in items:
        if op in (c.SUBPATTERN, c.ATOMIC_GROUP):
            yield from _flat(value[3] if op is c.SUBPATTERN else value)
        else:
            yield op, value


def _leaves(items: Sequence[Any]) -> Iterator[Any]:
    for op, value in items:
        below = _below(op, value)
        for sub in below:
            yield from _leaves(sub)
        if not below and op is not c.AT:
            yield op, value


def _unbounded(items: Sequence[Any]) -> Iterator[Any]:
    """The bodies of unbounded repetitions."""
    for op, value in items:
        if op in REPEATS and value[1] == UNBOUNDED:
            yield value[2]
        for sub in _below(op, value):
            yield from _unbounded(sub)


def _in_vain(items: Sequence[Any], sure: bool) -> Iterator[Any]:
    """Bodies of unbounded repetitions after which a match may still fail. `sure`: nothing that follows can fail."""
    for index, (op, value) in enumerate(items):
        then = sure and all(later in REPEATS and _is_nullable([(later, more)]) for later, more in items[index + 1 :])
        if op in REPEATS:
            if value[1] == UNBOUNDED and (not then or any(_unbounded(value[2]))):
                yield value[2]
            yield from _in_vain(value[2], sure=False)
        else:
            for sub in _below(op, value):
                yield from _in_vain(sub, then)


def _numbers(items: Sequence[Any]) -> Iterator[int]:
    """The characters that a pattern names explicitly."""
    for op, value in _leaves(items):
        for part in value if op is c.IN else [(op, value)]:
            if part[0] in (c.LITERAL, c.NOT_LITERAL):
                yield part[1]
            elif part[0] is c.RANGE:
                yield from part[1]


def _is_nullable(items: Sequence[Any]) -> bool:
    for op, value in items:
        if op in REPEATS:
            nullable = value[0] == 0 or _is_nullable(value[2])
        elif op is c.BRANCH:
            nullable = any(map(_is_nullable, value[1]))
        elif op in (c.SUBPATTERN, c.ATOMIC_GROUP):
            nullable = _is_nullable(value[3] if op is c.SUBPATTERN else value)
        else:
            nullable = op in (c.AT, c.ASSERT, c.ASSERT_NOT)
        if not nullable:
            return False
    return True
