"""What a file that should be text is instead, from its first bytes."""

SNIFFED_BYTES = 4096
MAGIC = (
    (b"%PDF", "a PDF document"),
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"\x1f\x8b", "gzip data"),
)


def binary_kind(head: bytes) -> str | None:
    """Name what binary content looks like, or None if the bytes may be text."""
    for magic, name in MAGIC:
        if head.startswith(magic):
            return name
    return "binary data" if b"\0" in head[:SNIFFED_BYTES] else None
