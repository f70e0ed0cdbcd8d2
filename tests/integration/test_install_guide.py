"""docs/INSTALL.md is walked, block by block: what it says to write, and what is to come of it. (The units: test_systemd.py.)"""
import pathlib
import re
import shutil
import subprocess

from harness.segard import SEGARCTL
from harness.wait import wait_until
from test_metrics import samples, value

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GUIDE = (ROOT / "docs" / "INSTALL.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)


def test_the_first_keyspace(own_origin, make_segard):
    own_origin.sql("CREATE TABLE product_config (id int PRIMARY KEY, name text)")
    own_origin.sql("INSERT INTO product_config SELECT i, 'name ' || i FROM generate_series(1, 100) i")
    role, track = blocks("sql")
    own_origin.psql("-c", role)
    own_origin.psql("-f", ROOT / "sql" / "install.sql")
    own_origin.psql("-c", track)
    config = next(block for block in blocks("yaml") if "keyspaces:" in block)
    segard = make_segard(own_origin)
    state = segard.folder / "state"
    state.mkdir()
    for there, here in (("host=/run/postgresql dbname=shop user=segar", own_origin.dsn("segar")),
                        ("/run/segar/segard.sock", segard.socket), (', group: segar }', " }"), ("/var/lib/segar", state),
                        ("127.0.0.1:9633", f"unix:{segard.folder / 'metrics'}")):
        assert there in config
        config = config.replace(there, str(here))
    segard.config_path.write_text(config)
    segard.start()
    done = subprocess.run([SEGARCTL, "-s", segard.socket, "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    client = segard.client()
    before = client.get("product_config:42")
    assert before["state"] == "fresh" and b'"name 42"' in before["value"]
    own_origin.sql("UPDATE product_config SET name = name WHERE id = 42")
    wait_until(lambda: client.get("product_config:42")["version"] > before["version"], what="the change to arrive")
    assert value(samples(segard), "segar_gets_total", keyspace="product_config", state="fresh", source="origin", reason="none") == 1


def test_prometheus_takes_its_configuration(tmp_path):
    [config] = [block for block in blocks("yaml") if "scrape_configs:" in block]
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(ROOT / "docs" / "prometheus" / "segar.rules.yaml", tmp_path)
    checked = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], text=True, capture_output=True)
    assert checked.returncode == 0 and re.search(r"\d\d rules found", checked.stdout), checked.stdout + checked.stderr


def test_the_documentation_is_installed_whole():
    installed = (ROOT / "meson.build").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"'docs/{page.name}'" not in installed] == []
