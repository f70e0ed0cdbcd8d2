"""Fixtures: one server for the session, a database for each test, servers and daemons of a test's own."""
import contextlib
import itertools
import pathlib
import re
import resource
import shutil
import tempfile

import pytest

from harness.fleet import Fleet
from harness.origin import Origin
from harness.postgres import Database, Postgres, make_template
from harness.redis import Redis
from harness.segard import Segard, merged

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
def cluster(workshop):
    return make_template(workshop / "cluster")


@pytest.fixture(scope="session")
def serial():
    """Numbers for the names of a session's folders."""
    return itertools.count(1)


@pytest.fixture(scope="session")
def shared_postgres(workshop, cluster):
    """The server of tests that do it no harm."""
    server = Postgres(workshop / "pg", cluster).start()
    server.sql("CREATE ROLE dba LOGIN")
    server.sql("CREATE ROLE app LOGIN")
    yield server
    server.stop()
    server.remove()


@pytest.fixture
def make_postgres(workshop, cluster, serial):
    """Makes servers of a test's own, to be stopped and killed at will."""
    servers = []

    def make(**settings):
        server = Postgres(workshop / f"pg{next(serial)}", cluster, **settings)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.remove()


@contextlib.contextmanager
def temporary_database(server, request, template):
    name = re.sub(r"\W", "_", request.node.name)[:60]
    server.sql(f'CREATE DATABASE "{name}" TEMPLATE {template}')
    yield name
    server.sql(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def database(shared_postgres, request):
    """An empty database, in which the role dba may create schemas."""
    with temporary_database(shared_postgres, request, "template1") as name:
        shared_postgres.sql(f'GRANT CREATE ON DATABASE "{name}" TO dba')
        yield Database(shared_postgres, name)


@pytest.fixture
def installed(database):
    """A database with segar's SQL side, installed by a role that is no superuser."""
    database.psql("-f", INSTALL, user="dba")
    database.sql("GRANT ALL ON SCHEMA public TO dba")
    return database


@pytest.fixture
def origin(shared_postgres, request):
    """A database to build from."""
    with temporary_database(shared_postgres, request, "origin") as name:
        yield Origin(shared_postgres, name)


@pytest.fixture
def own_origin(make_postgres):
    """The same on a server of the test's own."""
    return Origin(make_postgres())


@pytest.fixture
def make_segard(workshop, serial):
    """Makes daemons. With the test each must end well and leave no sanitizer's report."""
    daemons = []

    def make(origin, /, **config):
        dsn = origin if isinstance(origin, str) else origin.dsn()
        daemon = Segard(workshop / f"s{next(serial)}", dsn, **config)
        daemons.append(daemon)
        return daemon

    yield make
    failures = []
    for daemon in daemons:
        try:
            daemon.stop()
        except AssertionError as failure:
            failures.append(str(failure))
        finally:
            shutil.rmtree(daemon.folder, ignore_errors=True)
    assert not failures, "\n".join(failures)


@pytest.fixture
def make_redis(workshop, serial):
    servers = []

    def make(*settings, environment=None):
        server = Redis(workshop / f"r{next(serial)}", *settings, environment=environment)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.remove()


@pytest.fixture
def make_fleet(make_redis, make_segard):
    """Makes daemons that share a Redis, as if on so many hosts. The Redis outlives them."""

    def make(origin, hosts, /, redis=None, urls=None, origins=None, environments=None, **config):
        redis = redis or make_redis()
        urls = urls or [redis.url] * hosts
        config = merged({"origin": {"fleet": hosts}}, config)
        origins = origins or [origin] * hosts
        daemons = [make_segard(origins[host], environment=(environments or {}).get(host),
                               **merged(config, {"store": {"url": urls[host]}}))
                   for host in range(hosts)]
        return Fleet(redis, daemons).start()

    return make


@pytest.fixture
def segard(origin, make_segard):
    """A daemon with the keyspaces of origin.sql, on the shared server."""
    return make_segard(origin).start()
