"""Daemons that share a Redis, as if each were on a host of its own."""
from .wait import wait_until


class Fleet:
    def __init__(self, redis, daemons):
        self.redis = redis
        self.daemons = daemons

    def __iter__(self):
        return iter(self.daemons)

    def __getitem__(self, host):
        return self.daemons[host]

    def __len__(self):
        return len(self.daemons)

    def start(self):
        for daemon in self.daemons:
            daemon.spawn()
        for daemon in self.daemons:
            wait_until(daemon.answers, what="segard to answer")
        self.wait_in_touch()
        return self

    def running(self):
        return [daemon for daemon in self.daemons if daemon.process and daemon.process.running()]

    def stats(self, name):
        """That counter of each daemon that runs."""
        return [daemon.stats()[name] for daemon in self.running()]

    def sum(self, name):
        return sum(self.stats(name))

    def wait_in_touch(self):
        """Waits until each daemon has a place of its own, and hears what the others say."""

        def in_touch():
            stats = [daemon.stats() for daemon in self.running()]
            places = {s["store_place"] for s in stats}
            return (len(places) == len(stats) and min(places) >= 0 and
                    all(s["store_up"] and s["store_trusted"] and not s["store_alone"] for s in stats))

        wait_until(in_touch, what="the daemons to be in touch with Redis")

    def wait_sum(self, **wanted):
        """Waits until the daemons' counters have these sums."""
        wait_until(lambda: all(self.sum(name) == value for name, value in wanted.items()),
                   what=f"sums of {wanted}")

    def wait_rest(self):
        """Waits until nothing goes on, but that clients stay connected."""
        self.wait_sum(flights=0, waiters=0, leases=0, permits=0, queued=0, requests=0)

    def builder(self):
        """The one daemon that has a permit to build."""
        builders = [daemon for daemon in self.running() if daemon.stats()["permits"]]
        assert len(builders) == 1, f"{len(builders)} daemons build"
        return builders[0]

    def connections(self, count):
        """So many connections, spread over the daemons."""
        daemons = self.running()
        return [daemons[i % len(daemons)].client() for i in range(count)]
