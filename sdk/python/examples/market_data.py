"""
A publisher of market data, and a reader of it.

    python market_data.py publish ws://127.0.0.1:8800 --symbols EURUSD,GBPUSD --ticks 1000
    python market_data.py watch ws://127.0.0.1:8800

Each tick is published `once`: it is in the log exactly once, whatever happens to the connection. The newest quote of
each symbol is retained, so a reader that starts late has a price at once. A slow reader gets the newest quote of each
symbol instead of all (`conflate`).
"""

from __future__ import annotations

import argparse
import asyncio
import random
from dataclasses import dataclass

import crore


@dataclass
class Quote:
    """A price that walks at random."""

    symbol: str
    mid: float
    sequence: int = 0

    def tick(self) -> dict[str, object]:
        self.mid *= 1 + random.gauss(0, 0.0001)
        self.sequence += 1
        half = self.mid * 0.00005
        bid, ask = round(self.mid - half, 5), round(self.mid + half, 5)
        return {"symbol": self.symbol, "sequence": self.sequence, "bid": bid, "ask": ask}


async def feed(client: crore.Client, quote: Quote, ticks: int, interval: float) -> None:
    """Publishes the quotes of one symbol, in order."""
    for _ in range(ticks):
        await client.publish(f"quotes/{quote.symbol}", quote.tick(), once=True, retain=True, tags={"venue": "demo"})
        if interval:
            await asyncio.sleep(interval)


async def publish(url: str, symbols: list[str], ticks: int, interval: float) -> None:
    async with crore.connect(url, name="market-data") as client:
        client.on_state(lambda state: print(f"state: {state.state} {state.reason or ''}".rstrip()))
        await asyncio.gather(*(feed(client, Quote(it, random.uniform(0.5, 2)), ticks, interval) for it in symbols))
        print(f"published {ticks * len(symbols)} quotes")


async def watch(url: str) -> None:
    async with crore.connect(url, name="market-watch") as client:
        async for item in client.subscribe("quotes/+", policy="conflate"):
            match item:
                case crore.Message():
                    quote = item.json()
                    print(f"{quote['symbol']:8} {quote['bid']:.5f} {quote['ask']:.5f}")
                case crore.Gap():
                    print(f"missing: {item.start} to {item.end} ({item.cause})")


def main() -> None:
    parser = argparse.ArgumentParser(description="market data over Crore")
    parser.add_argument("what", choices=["publish", "watch"])
    parser.add_argument("url")
    parser.add_argument("--symbols", default="EURUSD,GBPUSD,USDJPY")
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between two ticks of a symbol")
    options = parser.parse_args()
    try:
        if options.what == "watch":
            asyncio.run(watch(options.url))
        else:
            asyncio.run(publish(options.url, options.symbols.split(","), options.ticks, options.interval))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
