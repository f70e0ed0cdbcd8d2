"""A relay in front of PostgreSQL's socket, which can be told to misbehave."""
import os
import pathlib
import select
import socket
import threading


class Proxy:
    """Listens where libpq looks for a server in `folder`; passes bytes on to the server `behind`.

    cut_after: bytes of answers that pass, over all connections; then every connection is cut.
    """

    def __init__(self, folder, behind):
        folder.mkdir()
        folder.chmod(0o755)
        self.folder = folder
        self.behind = str(behind.folder / ".s.PGSQL.5432")
        self.cut_after = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        pathlib.Path(folder / ".s.PGSQL.5432").chmod(0o777)
        self.listener.listen(64)
        self.pairs = []
        self.wake_read, self.wake_write = os.pipe()
        self.thread = threading.Thread(target=self.relay, daemon=True)
        self.thread.start()

    def dsn(self, dbname="origin", user="segard"):
        return f"host='{self.folder}' dbname='{dbname}' user='{user}'"

    def relay(self):
        while True:
            files = [self.listener, self.wake_read, *(s for pair in self.pairs for s in pair)]
            ready, _, _ = select.select(files, [], [])
            if self.wake_read in ready:
                return
            if self.listener in ready:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                server.connect(self.behind)
                self.pairs.append((client, server))
            for pair in list(self.pairs):
                client, server = pair
                if client in ready:
                    self.pass_on(pair, client, server)
                if pair in self.pairs and server in ready:
                    self.pass_on(pair, server, client)

    def pass_on(self, pair, source, target):
        try:
            data = source.recv(65536)
            if source is pair[1] and self.cut_after is not None:
                data = data[:self.cut_after]
                self.cut_after -= len(data)
            if data:
                target.sendall(data)
        except OSError:
            data = b""
        if not data:
            self.close_pair(pair)
        elif self.cut_after == 0:
            for other in list(self.pairs):
                self.close_pair(other)

    def close_pair(self, pair):
        if pair in self.pairs:
            self.pairs.remove(pair)
        for end in pair:
            end.close()

    def close(self):
        os.write(self.wake_write, b"x")
        self.thread.join()
        for pair in list(self.pairs):
            self.close_pair(pair)
        self.listener.close()
        os.close(self.wake_read)
        os.close(self.wake_write)
