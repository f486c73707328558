"""A file as lines: gzip opened, encodings decoded, colours stripped, lines bounded, what is passed over counted."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from midflight.errors import ConfigError, shorten

HEAD_BYTES = 1 << 16
_CHUNK = 1 << 20
MAX_LINE = 1 << 20
"""Characters of a line that are read at most: longer ones are no records, and may be a gigabyte."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)|[@-Z\\^_])")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)

OTHER_LINES = "other lines"


def _plain(rest: str, piece: str) -> tuple[str, str]:
    """What was left over and what comes next, with carriage returns as line ends and without colours."""
    if "\r" in piece:
        piece = piece.replace("\r", "\n")
    if "\x1b" in piece or "\x1b" in rest:  # a sequence may be cut between the two: it is stripped where it is whole
        return "", _ANSI.sub("", rest + piece)
    return rest, piece


@dataclass(frozen=True, slots=True)
class Unread:
    """What was passed over.

    Attributes:
        kind: Of what kind it is.
        count: How often.
        example: The first one, shortened, control characters made visible.
    """

    kind: str
    count: int
    example: str


class Source:
    """One file to be read.

    Args:
        path: The file.

    Attributes:
        num_skipped: What was not read so far, of whatever kind; lines that are no record not included.

    Raises:
        ConfigError: If it is empty or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counts: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self.num_skipped = 0
        self._others = 0
        self._first_other = ""
        try:
            with path.open("rb") as file:
                self._zipped = file.read(2) == b"\x1f\x8b"
            with self.open() as file:
                self.head = file.read(HEAD_BYTES)
        except _BROKEN as error:
            raise ConfigError(f"log {shorten(str(path))}: broken gzip", got=str(error)) from None
        except OSError as error:
            raise ConfigError(f"log {shorten(str(path))}: cannot be read", got=error.strerror or str(error)) from None
        if not self.head.strip():
            raise ConfigError(f"log {shorten(str(path))}: nothing in it", allowed="a training log")
        self.encoding = next((name for bom, name in _BOMS if self.head.startswith(bom)), "utf-8")
        self.is_binary = self.encoding != "utf-16" and b"\0" in self.head

    def open(self) -> gzip.GzipFile | BufferedReader:
        """The file's bytes, unpacked."""
        return gzip.GzipFile(self.path, "rb") if self._zipped else self.path.open("rb")

    @property
    def head_text(self) -> str:
        """The first 64 KiB as text."""
        return self.head.decode(self.encoding, errors="replace")

    def chunks(self) -> Iterator[bytes]:
        """The file's bytes, about a megabyte at a time; a gzip that breaks off ends there, counted."""
        try:
            with self.open() as file:
                while chunk := file.read1(_CHUNK):  # not read: it gives nothing of what stands before a break
                    yield chunk
        except _BROKEN as error:
            self.skip("gzip broken off", str(error))

    def texts(self) -> Iterator[str]:
        """The file's text, about a megabyte at a time; bytes that are no text are replaced."""
        decode = codecs.getincrementaldecoder(self.encoding)(errors="replace").decode
        for chunk in self.chunks():
            yield decode(chunk)
        yield decode(b"", True)

    def whole(self, limit: int) -> str:
        """The file's text, up to so many characters.

        Raises:
            ConfigError: If there are more.
        """
        text = ""
        for piece in self.texts():
            text += piece
            if len(text) > limit:
                raise ConfigError(
                    f"log {shorten(str(self.path))}: too large for its format", allowed=f"{limit:,} bytes"
                )
        return text

    def lines(self, keep_ends: bool = False) -> Iterator[str]:
        """Lines; a carriage return ends one as well, so that each state of a progress bar is a line of its own.

        Args:
            keep_ends: Ends at line feeds alone and keeps them, for CSV; colours stay.
        """
        end = "\n" if keep_ends else ""
        rest, dropping = "", False
        for piece in self.texts():
            if not keep_ends:
                rest, piece = _plain(rest, piece)
            *lines, last = piece.split("\n")
            if not lines:
                rest += last
            else:
                lines[0] = "" if dropping else rest + lines[0]
                rest, dropping = last, False
                yield from (line + end for line in lines)
            if len(rest) > MAX_LINE or dropping:
                if not dropping:
                    self.skip("lines too long", rest)
                rest, dropping = "", True
        if rest:
            yield rest

    def passed_over(self, line: str) -> None:
        """Counts a line that is no record."""
        if not self._others:
            self._first_other = shorten(line[:400], 120)
        self._others += 1

    def skip(self, kind: str, example: str) -> None:
        """Counts something that was not read."""
        self.num_skipped += 1
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if kind not in self._examples:
            self._examples[kind] = shorten(example[:400], 120)

    def unread(self) -> tuple[Unread, ...]:
        """What was passed over, by kind."""
        kinds = [Unread(kind, count, self._examples[kind]) for kind, count in self._counts.items()]
        return (*kinds, *([Unread(OTHER_LINES, self._others, self._first_other)] if self._others else []))
