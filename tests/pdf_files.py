"""PDF files of their objects."""

from collections.abc import Sequence


def pdf(objects: Sequence[bytes]) -> bytes:
    """Return a PDF of objects 1, 2, ...; the first one is the catalogue."""
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    n, start = len(objects) + 1, len(data)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"xref\n0 %d\n0000000000 65535 f \n%s" % (n, table)
    return data + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (n, start)


def stream(content: bytes) -> bytes:
    """Return the object of a stream."""
    return b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
