"""What a Service does for us: new connections go to the pod that wears the role label.

Open ones stay where they are, as with a real Service.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


@contextlib.asynccontextmanager
async def forwarder(
    port: int, target: Callable[[], int | None], lag_seconds: float = 0.0
) -> AsyncIterator[Callable[[], None]]:
    """Forward connections to ``port`` to whatever port ``target`` says; without one refuse them.

    What is given cuts all that are open. Answers take ``lag_seconds`` longer than they would.
    """
    open_ones: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones.add(task)
        try:
            if (to := target()) is not None:
                await _both_ways(reader, writer, to, lag_seconds)
        except OSError:
            pass  # nobody listens there now
        finally:
            open_ones.discard(task)
            writer.close()

    def cut() -> None:
        for task in list(open_ones):
            task.cancel()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield cut
    finally:
        server.close()
        cut()
        await asyncio.gather(*open_ones, return_exceptions=True)


async def _both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, lag_seconds: float
) -> None:
    there, back = await asyncio.open_connection("127.0.0.1", port)
    ways = ((reader, back, 0.0), (there, writer, lag_seconds))
    pipes = [asyncio.create_task(_pipe(*way)) for way in ways]
    try:
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pipe in pipes:
            pipe.cancel()
        back.close()


async def _pipe(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lag_seconds: float
) -> None:
    """Pass on what comes, each piece so much later than it came."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            if lag_seconds:
                loop.call_later(lag_seconds, writer.write, piece)
            else:
                writer.write(piece)
                await writer.drain()
