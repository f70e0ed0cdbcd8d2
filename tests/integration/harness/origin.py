"""The database that a daemon under test builds from: see origin.sql for its tables and functions."""
import contextlib
import re

from .postgres import Database, run, value
from .wait import wait_until

GATE = 7


class Origin(Database):
    def __init__(self, server, name="origin"):
        super().__init__(server, name)
        self.log_begin = len(server.log())

    def build_log(self):
        """(time in seconds, keyspace, argument) of each build, as the server logged it."""
        pattern = rf"^(\d+\.\d+) \[\d+\] {re.escape(self.name)} LOG:  build (\S+) ?(.*)$"
        return [(float(at), keyspace, arg) for at, keyspace, arg in
                re.findall(pattern, self.server.log()[self.log_begin:], re.MULTILINE)]

    def builds(self, keyspace=None, arg=None):
        """How many builds began. A server that crashed or rolled back has counted them all the same."""
        return sum(1 for _, k, a in self.build_log()
                   if keyspace in (None, k) and (arg is None or str(arg) == a))

    def check_rate(self, budget):
        """No second had more builds. Nine tenths of the budget are given out, evenly: that stays within it while no
        build starts (and gets into the log) by a ninth of a second later than others do, as happens on a machine
        that is busy with these tests."""
        begins = [at for at, _, _ in self.build_log()]
        worst = max(sum(begin <= other < begin + 1 for other in begins) for begin in begins)
        assert worst <= budget, f"{worst} builds within a second"

    def behave(self, keyspace, gate=None, delay_s=None, error=None):
        """What the keyspace's builds do from now on, once they have read their row."""
        self.sql("""INSERT INTO behaviour VALUES (%(k)s, %(g)s, %(d)s, %(e)s)
                    ON CONFLICT (keyspace) DO UPDATE SET gate = %(g)s, delay_s = %(d)s, error = %(e)s""",
                 {"k": keyspace, "g": gate, "d": delay_s, "e": error})

    @contextlib.contextmanager
    def gate(self, keyspace, error=None):
        """Builds of the keyspace stop at a gate until it is opened, at the latest with the block; with
        an error, those that stood there then fail with it."""
        with contextlib.closing(self.connect()) as connection:
            run(connection, "SELECT pg_advisory_lock(%s)", GATE)
            self.behave(keyspace, gate=GATE, error=error)
            gate = Gate(self, keyspace, connection)
            try:
                yield gate
            finally:
                gate.open()

    def set_item(self, item_id, text, version):
        self.sql("""INSERT INTO items VALUES (%s, %s, %s)
                    ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value, row_version = EXCLUDED.row_version""",
                 item_id, text, version)

    def statements(self):
        """How many statements of the daemon's run right now."""
        ((count,),) = self.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'segard' AND state = 'active'")
        return count


class Gate:
    def __init__(self, origin, keyspace, connection):
        self.origin = origin
        self.keyspace = keyspace
        self.connection = connection
        self.closed = True

    def waiting(self):
        """How many builds stand before the gate."""
        return value(self.connection, """
            SELECT count(*) FROM pg_locks
            WHERE locktype = 'advisory' AND objid = %s AND NOT granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())""", GATE)

    def wait_for(self, count):
        wait_until(lambda: self.waiting() == count, what=f"{count} builds at the gate")

    def open(self):
        """Lets through who waits, and all who come."""
        if self.closed and not self.connection.closed:
            self.origin.behave(self.keyspace)
            run(self.connection, "SELECT pg_advisory_unlock(%s)", GATE)
        self.closed = False
