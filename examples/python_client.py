"""An order desk: the program runs code in a session, and offers it one function of its own.

    make build && bin/locus up &
    PYTHONPATH=node/gateway/client/python/src python3 examples/python_client.py
"""

import locus

STOCK = {"apple": 12, "pear": 3, "plum": 0}


def stock(item: str) -> int:
    """How many of an item there are."""
    return STOCK[item]


OFFERED = {"shop.stock": locus.Primitive(stock, read_only=True)}

LOAD = """
orders = [("apple", 5), ("pear", 4), ("plum", 1)]
print(len(orders), "orders")
"""

CHECK = """
import asyncio
have = await asyncio.gather(*(primitives.shop.stock(item=item) for item, _ in orders))
short = [item for (item, wanted), there in zip(orders, have) if there < wanted]
orders.clear()     # this is a copy of the session, so nothing is lost
short
"""


def main() -> None:
    with locus.Locus() as node, node.session("order desk") as desk:
        desk.run(LOAD, on_event=show).raise_for_status()
        short = desk.read(CHECK, primitives=OFFERED).raise_for_status().result
        print("short of:", ", ".join(short))
        print("still there:", desk.run("len(orders)").result)
        try:
            desk.read("primitives.shop.stock.sync(item='apple')", timeout_s=-1)
        except locus.Refused as refused:
            print("refused:", refused.code)


def show(event: locus.Event) -> None:
    if isinstance(event, locus.Stdout):
        print("code:", event.text, end="")


if __name__ == "__main__":
    main()
