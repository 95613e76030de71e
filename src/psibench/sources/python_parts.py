"""Parts of the interpreter's documentation, as domains: the language, networks, the library."""

from typing import Literal

Part = Literal["all", "language", "network", "library"]

LANGUAGE_PREFIX = "pydoc_data.topics:"
"""How the origins of the language's own topics begin."""
NETWORK_PACKAGES = frozenset(
    """
    _socket _ssl asynchat asyncio asyncore base64 cgi cgitb email ftplib html http imaplib imghdr
    ipaddress json mailbox mailcap mimetypes netrc nntplib poplib quopri select selectors smtpd
    smtplib socket socketserver ssl telnetlib urllib uu uuid webbrowser wsgiref xdrlib xml xmlrpc
    """.split()
)
"""Modules and packages about networks, mail and the web, with their formats."""


def part_of(name: str, origin: str) -> Part:
    """Return the part that a page belongs to, by its name and origin."""
    if origin.startswith(LANGUAGE_PREFIX):
        return "language"
    package = name.lower().partition(".")[0]
    return "network" if package in NETWORK_PACKAGES else "library"
