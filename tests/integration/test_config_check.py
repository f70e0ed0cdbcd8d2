"""The daemon's command line: --check finds all that is wrong at once, and exit codes tell how it ended."""
import json
import subprocess

import pytest

from harness.segard import PROGRAM, make_config, sanitizer_environment


@pytest.fixture
def check(workshop, serial):
    """Runs `segard --config FILE --check [more]`; gives its exit code and all it said."""
    folder = workshop / f"c{next(serial)}"
    folder.mkdir()
    path = folder / "segard.yaml"

    def run(config, *more):
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=1))
        done = subprocess.run([PROGRAM, "--config", path, "--check", *more], capture_output=True, text=True,
                              env=sanitizer_environment(folder), timeout=60)
        assert not list(folder.glob("sanitizer*")), done.stderr
        return done.returncode, (done.stdout + done.stderr).replace(str(path), "FILE")

    return run


@pytest.fixture
def good(origin):
    return make_config("/tmp/segar-not-there.sock", origin.dsn())


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


def test_a_good_file_passes(check, good):
    code, said = check(good)
    assert code == 0, said


def test_a_good_file_passes_at_the_origin_too(check, good):
    code, said = check(good, "--origin")
    assert code == 0, said


def test_all_errors_are_told_at_once_each_with_its_place(check):
    code, said = check("""\
listen: { socket: relative.sock }
origin: { dsn: "", concurrency: 0, budget: fast }
keyspaces:
  - name: a b
    query: SELECT 1 AS value
    fresh: 0
  - name: twice
    query: SELECT 1 AS value
    fresh: 10m
    stael: 30s
  - name: twice
    query: SELECT 1 AS value
    fresh: 10m
""")
    assert code == 1
    for place in ("FILE:1:", "FILE:2:", "FILE:4:", "FILE:6:", "FILE:10:", "FILE:11:"):
        assert place in said, said
    assert said.count("FILE:2:") >= 2
    assert "stael" in said and "stale" in said


@pytest.mark.parametrize("key, value", [
    ("fresh", "0"), ("fresh", "10"), ("fresh", "-1s"), ("fresh", "10 minutes"), ("stale", "soon"), ("jitter", "60%"),
    ("query", ""), ("name", ""), ("name", "a:b"), ("name", "x" * 65), ("wait", "10m"), ("single_row", "perhaps"),
    ("unknown", "x"), ("on_change", "sometimes"), ("batch", "SELECT 1"), ("batch", {}), ("batch", {"max": 2}),
    ("batch", {"query": ""}), ("batch", {"query": "x", "max": 1}), ("batch", {"query": "x", "max": 65}),
    ("batch", {"query": "x", "linger": "2s"}), ("batch", {"query": "x", "size": 3}), ("error", "0"),
])
def test_what_cannot_work_is_refused(check, good, key, value):
    good["keyspaces"][0][key] = value
    code, said = check(good)
    assert code == 1 and "FILE:" in said, said


def test_a_path_of_more_than_107_bytes_is_refused(check, good):
    good["listen"]["socket"] = "/tmp/" + "a" * 103
    code, said = check(good)
    assert code == 1 and "107" in said
    good["listen"]["socket"] = "/tmp/" + "a" * 102
    assert check(good)[0] == 0


@pytest.mark.parametrize("text", ["", "\n", "[]", "x", "a: [", "\t", "\0", "listen: *a", "---\n---\n", "a: 1\na: 2\n"])
def test_what_is_no_configuration(check, text):
    code, said = check(text)
    assert code == 1 and said


def test_a_query_that_does_not_prepare_is_found_at_the_origin(check, good):
    good["keyspaces"].append({"name": "broken", "query": "SELECT nope AS value FROM nowhere", "fresh": "1m"})
    assert check(good)[0] == 0
    code, said = check(good, "--origin")
    assert code == 1 and "broken" in said and "nowhere" in said, said


def test_an_origin_that_is_not_there_is_found(check, good, workshop):
    good["origin"]["dsn"] = f"host='{workshop}' dbname=x connect_timeout=5"
    code, said = check(good, "--origin")
    assert code == 1 and said


def test_a_file_that_is_not_there(workshop):
    done = run("--config", workshop / "nowhere.yaml", "--check")
    assert done.returncode == 1 and "nowhere.yaml" in done.stderr


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--config"], ["--check", "--config"], ["extra"]])
def test_a_wrong_command_line(arguments):
    done = run(*arguments)
    assert done.returncode == 2 and done.stderr


def test_help_and_version():
    for option in ("--help", "--version"):
        done = run(option)
        assert done.returncode == 0 and "segar" in done.stdout and not done.stderr


def test_a_daemon_with_a_bad_file_does_not_start(workshop, serial):
    path = workshop / f"c{next(serial)}.yaml"
    path.write_text("listen: {}\n")
    done = run("--config", path)
    assert done.returncode == 1 and path.name in done.stderr


@pytest.mark.parametrize("dsn", [
    "host=/nowhere password=hunter2 nonsense=1", "host=/nowhere password=open hunter2", "host=/nowhere password='hunter2",
    "postgres://u:hunter2%zz@localhost/d", "postgres://u:open/hunter2@localhost/d", "postgres://u:hunter2/open@localhost/d",
    "postgres://u:open@hunter2@localhost/d", "postgres://u@localhost/d?hunter2"])
def test_a_password_is_in_no_message(check, good, dsn):
    """Nor are its parts, where odd signs in it have libpq take them for something else."""
    good["origin"]["dsn"] = dsn
    for more in ([], ["--origin"], ["--doctor"]):
        code, said = check(good, *more)
        assert code == 1 and "connection string" in said and "hunter2" not in said, said


@pytest.mark.parametrize("dsn", ["postgres://u:%40%2F@[::1]:5432,localhost/d", "host=a,,@b port=5432,,1", "port='' host=/run/pg", "service=app"])
def test_a_good_connection_string_passes(check, good, dsn):
    good["origin"]["dsn"] = dsn
    assert check(good)[0] == 0


def test_a_batch_query_is_looked_at_by_itself(check, good):
    many = {"name": "many", "query": "SELECT value FROM items WHERE id = $1", "fresh": "1m"}
    good["keyspaces"].append(many)
    many["batch"] = {"query": "SELECT id AS key, value FROM items WHERE id = ANY($1)"}
    code, said = check(good, "--origin")
    assert code == 0 and "many: batch: ok" in said, said
    many["batch"]["query"] = "SELECT value FROM items WHERE id = ANY($1)"
    code, said = check(good, "--origin")
    assert code == 1 and "many: batch: " in said and '"key"' in said, said
    many["query"] = "SELECT value FROM items WHERE id = $1 AND value = $2"
    code, said = check(good, "--origin")
    assert code == 1 and "one argument" in said, said
