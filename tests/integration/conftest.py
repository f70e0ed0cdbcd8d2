"""Fixtures: a server for the session, a database for each test."""
import itertools
import os
import pathlib
import re
import resource
import shutil
import tempfile

import pytest

from harness.postgres import Postgres, make_template

INSTALL = pathlib.Path(__file__).resolve().parent.parent.parent / "sql" / "install.sql"


def pytest_configure():
    # herds need a file for each client
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="session")
def workshop():
    """A folder for everything that the tests make; short, since socket paths are."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="segar-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_cluster(workshop):
    return make_template(workshop / "template")


@pytest.fixture(scope="session")
def shared_postgres(workshop, empty_cluster):
    """The server of tests that do it no harm."""
    server = Postgres(workshop / "pg", empty_cluster).start()
    server.sql("CREATE ROLE dba LOGIN")
    server.sql("CREATE ROLE app LOGIN")
    yield server
    server.stop()
    server.remove()


@pytest.fixture
def make_postgres(workshop, empty_cluster):
    """Makes servers of a test's own, to be stopped and killed at will."""
    numbers = itertools.count()
    servers = []

    def make(**settings):
        server = Postgres(workshop / f"pg-{os.getpid()}-{next(numbers)}", empty_cluster, **settings)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.remove()


class Database:
    """A database of one test, on the shared server."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def connect(self, user="postgres", autocommit=True):
        return self.server.connect(self.name, user, autocommit)

    def sql(self, statement, *args, user="postgres"):
        return self.server.sql(statement, *args, dbname=self.name, user=user)

    def psql(self, *arguments, user="postgres"):
        return self.server.psql(*arguments, dbname=self.name, user=user)


@pytest.fixture
def database(shared_postgres, request):
    name = re.sub(r"\W", "_", request.node.name)[:60]
    shared_postgres.sql(f'CREATE DATABASE "{name}"')
    shared_postgres.sql(f'GRANT CREATE ON DATABASE "{name}" TO dba')
    yield Database(shared_postgres, name)
    shared_postgres.sql(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def installed(database):
    """A database with segar's SQL side, installed by a role that is no superuser, and a schema of its."""
    database.psql("-f", INSTALL, user="dba")
    database.sql("GRANT ALL ON SCHEMA public TO dba")
    return database
