"""When the messages of a running server arrive."""

from itertools import pairwise
from time import perf_counter

from websockets.asyncio.client import ClientConnection


class Timed:
    """A websocket that notes when each frame arrived."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self.times = socket, []

    async def recv(self) -> bytes:
        frame = await self.socket.recv()
        self.times.append(perf_counter())
        return frame

    def gaps(self) -> list[float]:
        """Return the seconds from each frame after the last request to the next one."""
        return [after - before for before, after in pairwise(self.times)]

    async def send(self, message: bytes) -> None:
        self.times.clear()
        await self.socket.send(message)
