"""A PgBouncer in transaction mode, in front of a throw-away PostgreSQL."""
import contextlib
import shutil

import psycopg2

from .postgres import as_server, own, run
from .process import Process
from .wait import wait_until

PROGRAM = "/usr/sbin/pgbouncer"
PORT = 6432


class PgBouncer:
    """One pooler. Its socket is in `folder`; each database and role of the server has `size` connections."""

    def __init__(self, folder, server, size=8, **settings):
        own(folder)
        self.folder = folder
        self.process = None
        users = folder / "users"
        users.write_text('"segard" ""\n"postgres" ""\n')
        settings = {
            "listen_addr": "", "listen_port": PORT, "unix_socket_dir": folder, "auth_type": "trust",
            "auth_file": users, "admin_users": "postgres", "pool_mode": "transaction", "default_pool_size": size,
            **settings}
        lines = ["[databases]", f"* = host={server.folder}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        self.config = folder / "pgbouncer.ini"
        self.config.write_text("\n".join(lines) + "\n")

    def start(self):
        self.process = Process(as_server([PROGRAM, self.config]), self.folder / "log")
        wait_until(self.answers, what="PgBouncer to start")
        return self

    def kill(self):
        self.process.kill()
        # what is left of the socket keeps the next one from starting
        (self.folder / f".s.PGSQL.{PORT}").unlink(missing_ok=True)

    def remove(self):
        if self.process and self.process.running():
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def answers(self):
        self.check_running()
        try:
            self.connect("pgbouncer").close()
        except psycopg2.OperationalError:
            return False
        return True

    def check_running(self):
        assert self.process.running(), f"PgBouncer ended:\n{(self.folder / 'log').read_text()[-2000:]}"

    def dsn(self, origin, user="segard"):
        return f"host='{self.folder}' port={PORT} dbname='{origin.name}' user='{user}'"

    def connect(self, dbname, user="postgres"):
        connection = psycopg2.connect(f"host='{self.folder}' port={PORT} dbname='{dbname}' user='{user}'")
        connection.autocommit = True
        return connection

    def busy(self, origin):
        """How many of the server's connections are given to a client that has not given them back."""
        self.check_running()
        with contextlib.closing(self.connect("pgbouncer")) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW POOLS")
            names = [column.name for column in cursor.description]
            pools = [dict(zip(names, row)) for row in cursor.fetchall()]
        return sum(pool["sv_active"] for pool in pools
                   if (pool["database"], pool["user"]) == (origin.name, "segard"))
