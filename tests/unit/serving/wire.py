"""HTTP by hand, so that a test sees the connection and not what a client makes of it."""

import asyncio

DEADLINE_SECONDS = 10


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> bytes:
    """Send one GET on an open connection and return the head of the answer; its body is read."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    return head
