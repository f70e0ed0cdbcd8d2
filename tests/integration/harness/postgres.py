"""A throw-away PostgreSQL: a copy of one initdb, on a socket in its own folder, a direct child."""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess

import psycopg2

from .process import Process
from .wait import wait_until

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "shared_preload_libraries": "pg_stat_statements",
    "client_connection_check_interval": "1s",
    "log_line_prefix": "%n [%p] %d ",
    "log_error_verbosity": "terse",
    # a test may stop and kill servers; nothing that happens between tests shall
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
}


def find_bin():
    """The folder of PostgreSQL's programs, the newest if there are several."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                   key=lambda path: int(path.parts[-3]))
    assert found, "PostgreSQL is not installed: run scripts/setup"
    return found[-1].parent


BIN = find_bin()


def as_server(command):
    """PostgreSQL refuses to run as root: there its own user does it."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
            "--inh-caps=-all", "--", *command]


def initdb(folder):
    """Makes an empty cluster in `folder`; anyone on this host may connect as anyone."""
    own(folder)
    subprocess.run(
        as_server([BIN / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N",
                   "-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"]),
        check=True, stdout=subprocess.DEVNULL)


def make_template(folder):
    """A stopped cluster to be copied, with a database "origin" (origin.sql): initdb once is enough."""
    initdb(folder)
    server = Postgres(folder)
    server.start()
    server.sql("CREATE DATABASE origin")
    server.psql("-1", "-f", pathlib.Path(__file__).with_name("origin.sql"), dbname="origin")
    server.stop()
    return folder


def own(folder):
    """Makes `folder` one that the server can use, and others can connect in."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)


class Postgres:
    """One server. Its socket is in `folder`, which is also `host` in a connection string."""

    def __init__(self, folder, template=None, **settings):
        self.folder = folder
        self.settings = {**SETTINGS, **settings}
        self.process = None
        self.log_path = folder / "log"
        if template:
            own(folder)
            # keeps owners and modes, which the server checks
            subprocess.run(["cp", "-a", template / "data", folder / "data"], check=True)

    def make_standby(self, folder):
        """A server that follows this one, once it is started, until it is promoted."""
        own(folder)
        subprocess.run(
            as_server([BIN / "pg_basebackup", "-h", self.folder, "-U", "postgres", "-D", folder / "data", "-R",
                       "-c", "fast", "--no-sync"]),
            check=True, stdout=subprocess.DEVNULL)
        return Postgres(folder, **self.settings)

    # life

    def start(self):
        settings = [f"-c{name}={value}" for name, value in self.settings.items()]
        self.process = Process(
            as_server([BIN / "postgres", "-D", self.folder / "data", "-k", self.folder, *settings]),
            self.log_path)
        wait_until(self.answers, what="PostgreSQL to start")
        return self

    def stop(self):
        """Fast shutdown: ends sessions, writes a checkpoint."""
        if self.process and self.process.running():
            self.resume()
            self.process.signal(signal.SIGINT)
            self.process.wait()

    def kill(self):
        """As a machine that loses power: the server and its backends, which lead sessions of their own."""
        self.signal_all(signal.SIGSTOP)
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        """Nothing of it runs; the kernel still accepts connections for it."""
        self.signal_all(signal.SIGSTOP)

    def resume(self):
        self.signal_all(signal.SIGCONT)

    def signal_all(self, number):
        # a stopped server forks no more, so its children are all that there will be
        if number == signal.SIGSTOP:
            os.kill(self.process.pid, number)
        for pid in self.backends():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        os.kill(self.process.pid, number)

    def remove(self):
        if self.process and self.process.running():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def backends(self):
        """Process ids of the postmaster's children."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path) as file:
            return [int(pid) for pid in file.read().split()]

    def answers(self):
        assert self.process.running(), f"PostgreSQL ended:\n{self.log()[-2000:]}"
        try:
            self.connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    # talk

    def dsn(self, dbname="postgres", user="postgres", **more):
        parts = {"host": self.folder, "dbname": dbname, "user": user, **more}
        return " ".join(f"{name}='{value}'" for name, value in parts.items())

    def connect(self, dbname="postgres", user="postgres", autocommit=True):
        connection = psycopg2.connect(self.dsn(dbname, user), connect_timeout=30)
        connection.autocommit = autocommit
        return connection

    def sql(self, statement, *args, dbname="postgres", user="postgres"):
        """Runs one statement in a session of its own; its rows, or None where it has none."""
        with contextlib.closing(self.connect(dbname, user)) as connection:
            return run(connection, statement, *args)

    def psql(self, *arguments, dbname="postgres", user="postgres", stdin=None):
        """Runs psql on arguments or on a script; raises with its output if it fails."""
        return subprocess.run(
            [BIN / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.dsn(dbname, user), *arguments],
            check=True, capture_output=True, text=True, input=stdin)

    def log(self):
        return self.log_path.read_text(errors="replace")


class Database:
    """One database of a server."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def dsn(self, user="segard"):
        return self.server.dsn(self.name, user)

    def connect(self, user="postgres", autocommit=True):
        return self.server.connect(self.name, user, autocommit)

    def sql(self, statement, *args, user="postgres"):
        return self.server.sql(statement, *args, dbname=self.name, user=user)

    def psql(self, *arguments, user="postgres", stdin=None):
        return self.server.psql(*arguments, dbname=self.name, user=user, stdin=stdin)


def run(connection, statement, *args):
    with connection.cursor() as cursor:
        # a dict is named parameters
        cursor.execute(statement, args[0] if len(args) == 1 and isinstance(args[0], dict) else args or None)
        return cursor.fetchall() if cursor.description else None


def value(connection, statement, *args):
    """The one value that the statement returns."""
    ((only,),) = run(connection, statement, *args)
    return only
