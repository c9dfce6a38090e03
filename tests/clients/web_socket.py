"""The Python package `websockets` against an echo: messages come back as they were, and the close is clean.

Usage: web_socket.py URL [compressed]. With the second argument messages must be compressed, without it they must not.
Exits with 0 if all is as it should be.
"""

import asyncio
import sys

from websockets.asyncio.client import connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

COMPRESSED = sys.argv[2:] == ["compressed"]


async def messages(url):
    # It offers compression by itself.
    async with connect(url, max_size=32 << 20) as socket:
        granted = socket.response.headers.get("Sec-WebSocket-Extensions", "")
        assert granted.startswith("permessage-deflate") == COMPRESSED, granted
        for message in ["", "hello", "κόσμε", "x" * 70_000, b"", b"\x00\xff" * 100_000]:
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send(iter(["one ", "two ", "three"]))
        assert await socket.recv() == "one two three"
        await asyncio.wait_for(await socket.ping(), 10)
        await socket.close(1000, "done")
        assert socket.close_code == 1000, socket.close_code


async def windows(url):
    for bits in range(9, 16):
        offer = ClientPerMessageDeflateFactory(server_max_window_bits=bits, client_max_window_bits=bits)
        async with connect(url, compression=None, extensions=[offer], max_size=32 << 20) as socket:
            for length in [100, 511, 512, 513, 5_000, 40_000, 1_000_000]:
                text = (f"{length} is {bits} " * length)[:length]
                await socket.send(text)
                assert await socket.recv() == text


async def many(url):
    async def client(number):
        async with connect(url, compression=None) as socket:
            for turn in range(20):
                text = f"client {number} turn {turn}"
                await socket.send(text)
                assert await socket.recv() == text

    await asyncio.gather(*(client(number) for number in range(50)))


async def main(url):
    await messages(url)
    if COMPRESSED:
        await windows(url)
    await many(url)


asyncio.run(asyncio.wait_for(main(sys.argv[1]), 60))
