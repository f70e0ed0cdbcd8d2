"""A relay between two sockets, Unix or TCP, that can be told to misbehave.

Each way of it, `up` to the server and `down` to the client, does what its `fault` says:

    PASS                     nothing
    Delay(seconds)           every byte arrives so much later
    Dribble(bytes, seconds)  so many bytes at once, then a pause
    DUPLICATE                every piece arrives twice
    BLACK_HOLE               nothing arrives, and the sender never knows
    CUT                      both ends are closed, between any two bytes
    RESET                    the same, so that both see a reset (over TCP)
    HALF_CLOSE               this way ends, the other goes on

A script tells what it does from which byte on: `proxy.down.script = [(100, CUT)]` lets 100 bytes pass, counted over all
connections, then cuts every connection. `refusing`: new connections are closed at once.
"""
import asyncio
import collections
import os
import pathlib
import socket
import struct
import threading
from asyncio import sleep as let_pass

Delay = collections.namedtuple("Delay", "seconds")
Dribble = collections.namedtuple("Dribble", "bytes seconds")
PASS, DUPLICATE, BLACK_HOLE, CUT, RESET, HALF_CLOSE = (
    "pass", "duplicate", "black hole", "cut", "reset", "half-close")
ENDS = (CUT, RESET, HALF_CLOSE)
PIECE = 65536
HELD_MAX = 1 << 20  # bytes that a delay holds back; who sends more waits


class Way:
    """One direction, over all connections."""

    def __init__(self):
        self.fault = PASS
        self.script = []  # [(bytes until then, fault from then on)]
        self.passed = 0   # bytes that were passed on, or lost

    def next_piece(self, data):
        """The part of `data` that the present fault goes for; empty: the fault is one that ends the connection."""
        if self.step():
            return b""
        piece = data
        if self.script:
            left, fault = self.script[0]
            piece = data[:left]
            self.script[0] = (left - len(piece), fault)
        self.passed += len(piece)
        return piece

    def step(self):
        """Takes the script's next step if it is due. Whether this way ends its connections now."""
        while self.script and self.script[0][0] == 0:
            self.fault = self.script.pop(0)[1]
        return self.fault in ENDS


class Proxy:
    """Listens at `listen` for the server at `behind`; each is a path, or (host, port). Port 0: any that is free, then
    found in `address`."""

    def __init__(self, listen, behind):
        self.behind = behind
        self.up, self.down = Way(), Way()
        self.refusing = False
        self.pairs = {}  # of the sockets: both their tasks
        self.listener = self.listen_at(listen)
        self.address = self.listener.getsockname()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @classmethod
    def for_postgres(cls, folder, server):
        """Where libpq looks for a server in `folder`."""
        folder.mkdir()
        folder.chmod(0o755)
        name = ".s.PGSQL.5432"
        return cls(folder / name, server.folder / name)

    def dsn(self, dbname="origin", user="segard"):
        return f"host='{pathlib.Path(self.address).parent}' dbname='{dbname}' user='{user}'"

    def connections(self):
        return len(self.pairs)

    def cut_all(self):
        """Ends every connection that there is; new ones are taken."""
        self.loop.call_soon_threadsafe(self.end_all, CUT)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    # of the thread

    @staticmethod
    def listen_at(place):
        unix = isinstance(place, (str, os.PathLike))
        listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(str(place) if unix else place)
        if unix:
            pathlib.Path(place).chmod(0o777)
        listener.listen(512)
        listener.setblocking(False)
        return listener

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(self.accept())
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for end in [end for pair in self.pairs for end in pair]:
            end.close()
        self.listener.close()
        self.loop.close()

    async def accept(self):
        while True:
            client, _ = await self.loop.sock_accept(self.listener)
            client.setblocking(False)
            if self.refusing:
                client.close()
            else:
                self.loop.create_task(self.connect(client))

    async def connect(self, client):
        unix = isinstance(self.behind, (str, os.PathLike))
        server = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        try:
            await self.loop.sock_connect(server, str(self.behind) if unix else self.behind)
        except OSError:
            client.close()
            server.close()
            return
        pair = (client, server)
        self.pairs[pair] = [self.loop.create_task(self.relay(pair, client, server, self.up)),
                            self.loop.create_task(self.relay(pair, server, client, self.down))]

    async def relay(self, pair, source, target, way):
        held = asyncio.Queue()
        room = asyncio.Semaphore(HELD_MAX // PIECE)
        deliver = self.loop.create_task(self.deliver(pair, target, held, room, way))
        try:
            while True:
                await room.acquire()
                data = await self.loop.sock_recv(source, PIECE)
                held.put_nowait((self.loop.time(), data))
                if not data:
                    await deliver
                    return
        except OSError:
            self.end_pair(pair, CUT)
        finally:
            deliver.cancel()

    async def deliver(self, pair, target, held, room, way):
        """In a task of its own: what comes while something is delayed is delayed from when it came."""
        try:
            while True:
                came, data = await held.get()
                if not data:
                    self.half_close(pair, target)
                    return
                while data:
                    piece = way.next_piece(data)
                    data = data[len(piece):]
                    await self.pass_on(target, piece, came, way.fault)
                    if way.step():
                        self.end_all(way.fault, way)
                        return
                room.release()
        except OSError:
            self.end_pair(pair, CUT)

    async def pass_on(self, target, piece, came, fault):
        if fault == BLACK_HOLE:
            return
        if isinstance(fault, Delay):
            await let_pass(came + fault.seconds - self.loop.time())
        step = fault.bytes if isinstance(fault, Dribble) else len(piece)
        for at in range(0, len(piece), step or 1):
            await self.loop.sock_sendall(target, piece[at:at + step])
            if fault == DUPLICATE:
                await self.loop.sock_sendall(target, piece)
            if isinstance(fault, Dribble):
                await let_pass(fault.seconds)

    def end_all(self, how, way=None):
        for pair in list(self.pairs):
            if how == HALF_CLOSE:
                self.half_close(pair, pair[0] if way is self.down else pair[1])
            else:
                self.end_pair(pair, how)

    def half_close(self, pair, target):
        """`target` is told that nothing more comes; the pair ends with its second way."""
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        ended = self.pairs.get(pair)
        if ended is None:
            return
        if target in ended:
            return
        ended.append(target)
        if all(end in ended for end in pair):
            self.end_pair(pair, CUT)

    def end_pair(self, pair, how):
        tasks = self.pairs.pop(pair, None)
        if tasks is None:
            return
        for task in tasks:
            if not isinstance(task, socket.socket) and task is not asyncio.current_task(self.loop):
                task.cancel()
        for end in pair:
            if how == RESET and end.family == socket.AF_INET:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self.shut(end)
            # the loop first forgets its file, whose number the next socket gets
            self.loop.call_later(0.001, end.close)

    @staticmethod
    def shut(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
