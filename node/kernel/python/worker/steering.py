"""Messages between the running code and its caller: notify, interjections, and
requests for clarification."""

import asyncio
import collections
import threading

MAX_TEXT = 64 << 10
MAX_PENDING = 10_000


class Sent:
    """The result of notify. It can be awaited, which does nothing."""

    __slots__ = ()

    def __await__(self):
        return iter(())

    def __repr__(self):
        return "<sent>"


SENT = Sent()


class Interjections:
    """Messages sent to the running call.

    pending() returns those that have arrived and were not taken yet, as a list; it
    never waits. await get() returns the next one, and waits for it.
    """

    __slots__ = ("_mailbox",)

    def __init__(self, mailbox):
        self._mailbox = mailbox

    def pending(self):
        """The messages that have arrived and were not taken yet."""
        return self._mailbox.take_all()

    async def get(self):
        """The next message; waits until there is one."""
        return await self._mailbox.next()

    def __repr__(self):
        return "<interjections: pending() or await get()>"


class Mailbox:
    """Messages from the node to the code. The steward's thread delivers them; any thread
    and any event loop may take them."""

    def __init__(self, emit):
        self.emit = emit
        self.lock = threading.Lock()
        self.messages = collections.deque(maxlen=MAX_PENDING)
        self.waiters = collections.deque()
        self.questions = {}
        self.asked = 0

    def begin(self):
        """Drops what was meant for an earlier call."""
        if self.messages or self.questions:
            with self.lock:
                self.messages.clear()
                self.questions.clear()

    def deliver(self, message):
        """Accepts one message from the node."""
        kind = message.get("kind")
        with self.lock:
            if kind == "interject":
                self.messages.append(message.get("text", ""))
                waiter = self.waiters.popleft() if self.waiters else None
            elif kind == "answer":
                waiter = self.questions.pop(message.get("id"), None)
            else:
                return
        if waiter is not None:
            loop, future = waiter
            try:
                loop.call_soon_threadsafe(_settle, future, message)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more

    def take_all(self):
        with self.lock:
            found = list(self.messages)
            self.messages.clear()
        return found

    async def next(self):
        loop = asyncio.get_running_loop()
        while True:
            with self.lock:
                if self.messages:
                    return self.messages.popleft()
                future = loop.create_future()
                self.waiters.append((loop, future))
            try:
                await future
            finally:
                with self.lock:
                    if (loop, future) in self.waiters:
                        self.waiters.remove((loop, future))

    async def ask(self, event):
        """Sends a question and waits for its answer."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self.lock:
            self.asked += 1
            name = str(self.asked)
            self.questions[name] = (loop, future)
        try:
            self.emit(dict(event, id=name))
            return await future
        finally:
            with self.lock:
                self.questions.pop(name, None)

    def builtins(self):
        """Returns the builtins for code, by name."""

        def notify(text):
            """Send a line of progress to whoever follows this call."""
            self.emit({"kind": "notify", "text": str(text)[:MAX_TEXT]})
            return SENT

        async def request_clarification(question):
            """Ask whoever follows this call, and wait here for the answer."""
            answer = await self.ask({"kind": "clarification", "text": str(question)[:MAX_TEXT]})
            return answer.get("text", "")

        for function in (notify, request_clarification):
            function.__qualname__ = function.__name__  # what a TypeError calls it

        return {
            "notify": notify,
            "request_clarification": request_clarification,
            "interjections": Interjections(self),
        }


def _settle(future, message):
    if not future.done():
        future.set_result(message)
