"""Publish/subscribe in a few lines on the package `websockets`, as its documentation advises for many connections:
no compression, `broadcast`, and the loop of `uvloop`. `python websockets_server.py PORT`.

To /subscribe: the first text is the topic, answered by "ok". To /publish: a byte with the length of the topic's
name, the name, the payload.
"""

import asyncio
import sys

import uvloop
from websockets.asyncio.server import broadcast, serve

topics = {}


async def handle(socket):
    if socket.request.path == "/publish":
        async for data in socket:
            end = 1 + data[0]
            members = topics.get(data[1:end].decode())
            if members:
                broadcast(members, data[end:])
        return
    topic = await socket.recv()
    members = topics.setdefault(topic, set())
    members.add(socket)
    try:
        await socket.send("ok")
        await socket.wait_closed()
    finally:
        members.discard(socket)
        if not members:
            topics.pop(topic, None)


async def main():
    options = {"compression": None, "ping_interval": None, "backlog": 4096}
    async with serve(handle, "127.0.0.1", int(sys.argv[1]), **options) as server:
        await server.serve_forever()


uvloop.run(main())
