"""Finding the workspace, and the configuration with where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_md.agents.spec import RunSettings
from agent_md.config_file import NamedKey
from agent_md.env_file import parse_env_file
from agent_md.errors import ConfigInvalid
from agent_md.settings import KEYS, Settings, TerminalSettings, load_settings


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / "a.md").write_text("---\n---\n")
    return folder


def load(workspace: Path, environ: Mapping[str, str] | None = None) -> Settings:
    return load_settings(workspace, environ=environ or {}, cwd=workspace, home=workspace.parent / "home")


def user_config(workspace: Path, text: str) -> Path:
    path = workspace.parent / "home" / ".config" / "agentmd" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def tree(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_without_any_file_everything_is_built_in_and_nothing_is_written(workspace: Path) -> None:
    before = tree(workspace.parent)

    settings = load(workspace)

    assert tree(workspace.parent) == before
    assert settings.agents_dir == workspace / "agents"
    assert settings.state_dir == workspace / ".agentmd"
    assert settings.database == workspace / ".agentmd" / "agentmd.db"
    assert settings.checkpoint_database == workspace / ".agentmd" / "agentmd_checkpoints.db"
    assert settings.tools_dir == workspace / "agents" / "_config" / "tools"
    assert settings.skills_dir == workspace / "agents" / "_config" / "skills"
    assert settings.mcp_config == workspace / "agents" / "_config" / "mcp-servers.json"
    defaults = settings.defaults
    assert (defaults.provider, defaults.model) == ("google", "gemini-2.5-flash")
    assert defaults.settings == RunSettings()
    assert (defaults.history, defaults.on_pending, defaults.confirm_timeout) == (10, "skip", None)
    assert defaults.confirm_tools == ("file_delete", "file_write")
    assert (defaults.checkpoint_retention_days, defaults.max_agent_depth) == (30, 3)
    assert (settings.server.host, settings.server.port, settings.server.api_key) == (None, None, None)
    assert (settings.server.max_concurrent, settings.server.trusted_roles) == (32, ("user",))
    assert settings.retention.executions_days is None
    assert settings.webhooks.interrupt_delay == 5.0
    assert (settings.http.allow_hosts, settings.prices, settings.log_level) == ((), None, "INFO")
    assert settings.max_cost_usd_per_day is None
    assert settings.origins == {"workspace": "--workspace"} | dict.fromkeys(KEYS, "default")


FULL = """\
---
agents_dir: bots
state_dir: ~/state
database: data/x.db
tools_dir: tools
skills_dir: /skills
mcp_config: mcp.json
defaults:
  provider: ollama
  model: qwen3
  temperature: 0.5
  max_tokens: 100
  timeout: 60
  max_tool_calls: 5
  max_execution_tokens: 1000
  max_cost_usd: 0.1
  max_cost_usd_per_day: 1
  loop_detection: false
  max_tool_result_bytes: 2000
  history: off
  on_pending: parallel
  confirm_timeout: 2h
  confirm_tools: []
  checkpoint_retention_days: 0
  max_agent_depth: 1
server:
  host: 127.0.0.1
  port: 8000
  api_key: hunter2
  keys: {ann: "${ANN_KEY}"}
  allowed_hosts: [agents.example.com]
  max_concurrent: 4
  max_sessions: 10
  session_ttl: 1d
  default_agent: cleaner
  allow_custom_ids: true
  trusted_roles: [user, system]
terminal: {bell: true, notice: osc777}
webhooks: {interrupt_delay: 0s}
http: {allow_hosts: [localhost, 10.0.0.1]}
retention: {executions_days: 90}
max_cost_usd_per_day: 12.5
prices: prices.yaml
log_level: debug
"""


def test_every_key_can_be_set(workspace: Path) -> None:
    (workspace / "config.yaml").write_text(FULL)

    settings = load(workspace)

    given = dict.fromkeys(KEYS, "config.yaml") | dict.fromkeys(
        ("allow_state_on", "redact_except", "trust.environment", "trust.hosts"), "default"
    )  # the user's
    assert settings.origins == {"workspace": "--workspace"} | given
    assert settings.agents_dir == workspace / "bots"
    assert settings.terminal == TerminalSettings(bell=True, notice="osc777")
    assert settings.state_dir == workspace.parent / "home" / "state"
    assert settings.database == workspace / "data" / "x.db"
    assert settings.checkpoint_database == workspace / "data" / "x_checkpoints.db"
    assert (settings.tools_dir, settings.skills_dir) == (workspace / "tools", Path("/skills"))
    assert settings.mcp_config == workspace / "mcp.json"
    defaults = settings.defaults
    assert (defaults.provider, defaults.model, defaults.history) == ("ollama", "qwen3", 0)
    assert defaults.settings == RunSettings(0.5, 100, 60.0, 5, 1000, 0.1, 1.0, False, 2000)
    assert (defaults.on_pending, defaults.confirm_timeout, defaults.confirm_tools) == ("parallel", 7200.0, ())
    assert (defaults.checkpoint_retention_days, defaults.max_agent_depth) == (None, 1)
    server = settings.server
    assert (server.host, server.port, server.api_key, server.max_concurrent) == ("127.0.0.1", 8000, "hunter2", 4)
    assert (server.keys, server.allowed_hosts) == ((NamedKey("ann", "ANN_KEY"),), ("agents.example.com",))
    assert (server.max_sessions, server.session_ttl, server.default_agent) == (10, 86400.0, "cleaner")
    assert (server.allow_custom_ids, server.trusted_roles) == (True, ("user", "system"))
    assert (settings.retention.executions_days, settings.max_cost_usd_per_day) == (90, 12.5)
    assert (settings.webhooks.interrupt_delay, settings.http.allow_hosts) == (0.0, ("localhost", "10.0.0.1"))
    assert (settings.prices, settings.log_level) == (workspace / "prices.yaml", "DEBUG")
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("value", ["-1", "much", "true", "[5]"])
def test_a_limit_of_a_day_is_an_amount(workspace: Path, value: str) -> None:
    (workspace / "config.yaml").write_text(f"log_level: INFO\nmax_cost_usd_per_day: {value}\n")
    with pytest.raises(ConfigInvalid, match=r"config\.yaml:2:\d+: max_cost_usd_per_day: "):
        load(workspace)


def test_only_the_user_says_which_file_systems_hold_state(workspace: Path) -> None:
    user = user_config(workspace, "allow_state_on: [fuse.gocryptfs, virtiofs]")
    settings = load(workspace)
    assert settings.allow_state_on == ("fuse.gocryptfs", "virtiofs")
    assert (settings.origins["allow_state_on"], settings.user_config) == (str(user), user)
    (workspace / "config.yaml").write_text("log_level: INFO\nallow_state_on: [nfs]")
    with pytest.raises(ConfigInvalid, match=r"work/config\.yaml:2:\d+: allow_state_on: only the user's own config"):
        load(workspace)


def test_what_holds_no_secret_is_said_by_the_user_alone(workspace: Path) -> None:
    user = user_config(workspace, "redact_except: [SSL_KEY]")
    environ = {"SSL_KEY": "/etc/ssl/a.key", "SHOP_TOKEN": "s3cret-value", "GOOGLE_API_KEY": "k3y-value"}
    settings = load(workspace, environ)
    assert settings.secrets() == {name: environ[name] for name in ("SHOP_TOKEN", "GOOGLE_API_KEY")}
    assert settings.secrets(["SSL_KEY"]) == environ
    (workspace / "config.yaml").write_text("redact_except: [SHOP_TOKEN]")
    with pytest.raises(ConfigInvalid, match="redact_except: only the user's own config"):
        load(workspace)
    user.write_text("redact_except: [no name]")
    with pytest.raises(ConfigInvalid, match="redact_except"):
        load(workspace)


@pytest.mark.parametrize("text", ["fuse.sshfs nfs", "''", '"a\\tb"', "5"])
def test_a_type_of_file_systems_is_one_word(workspace: Path, text: str) -> None:
    user_config(workspace, f"allow_state_on: [{text}]")
    with pytest.raises(ConfigInvalid, match="allow_state_on"):
        load(workspace)


def test_the_tools_folder_follows_the_agents_folder(workspace: Path) -> None:
    (workspace / "config.yaml").write_text("agents_dir: bots")

    assert load(workspace).tools_dir == workspace / "bots" / "_config" / "tools"


def test_workspace_wins_over_user_wins_over_built_in(workspace: Path) -> None:
    user = user_config(workspace, "defaults: {timeout: 10, history: high}\nlog_level: ERROR\nagents_dir: mine")
    (workspace / "config.yaml").write_text("defaults: {timeout: 20, history: }\nagents_dir: ~")

    settings = load(workspace, {"AGENTMD_LOG_LEVEL": "warning"})

    assert (settings.defaults.settings.timeout, settings.defaults.history) == (20.0, 200)
    assert (settings.agents_dir, settings.log_level) == (workspace / "mine", "WARNING")
    assert settings.origins["defaults.timeout"] == "config.yaml"
    assert settings.origins["defaults.history"] == settings.origins["agents_dir"] == str(user)
    assert settings.origins["log_level"] == "AGENTMD_LOG_LEVEL"
    assert settings.origins["defaults.max_tool_calls"] == "default"


@pytest.mark.parametrize(
    ("user", "own", "expected"),
    [
        ("", "{provider: openai}", ("openai", None)),
        ("", "{provider: google}", ("google", "gemini-2.5-flash")),
        ("", "{model: gemini-x}", ("google", "gemini-x")),
        ("{provider: openai, model: gpt}", "", ("openai", "gpt")),
        ("{provider: openai, model: gpt}", "{provider: ollama}", ("ollama", None)),
        ("{provider: openai, model: gpt}", "{provider: openai}", ("openai", "gpt")),
        ("{provider: openai}", "{model: gpt}", ("openai", "gpt")),
    ],
)
def test_a_default_model_only_goes_with_its_provider(
    workspace: Path, user: str, own: str, expected: tuple[str, str | None]
) -> None:
    user_config(workspace, f"defaults: {user}")
    (workspace / "config.yaml").write_text(f"defaults: {own}")

    defaults = load(workspace).defaults

    assert (defaults.provider, defaults.model) == expected


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("agent_dir: x", "1:1", "agent_dir: did you mean agents_dir?"),
        ("defaults:\n  tiemout: 5", "2:3", "defaults.tiemout: did you mean timeout?"),
        ("provider: google", "1:1", "did you mean defaults.provider?"),
        ("server: {prot: 80}", "1:10", "server.prot: did you mean port?"),
        ("server: {port: '80'}", "1:16", "server.port: expected a whole number"),
        ("server: {port: 70000}", "1:16", "out of range"),
        ("server: {max_concurrent: 0}", "1:26", "out of range"),
        ("server: {trusted_roles: admin}", "1:25", '"admin" is not a role'),
        ("defaults: {history: no}", "1:21", "read no, for YAML the boolean false"),
        ("defaults: {confirm_timeout: 30}", "1:29", "the unit is missing"),
        ("defaults: {confirm_timeout: 0s}", "1:29", "0s leaves no time at all"),
        ("server: {session_ttl: 0m}", "1:23", "0m leaves no time at all"),
        ("defaults: {confirm_tools: file write}", "1:27", "is not a rule"),
        ("defaults: [a]", "1:11", "expected a mapping"),
        ("database: postgresql://localhost/x", "1:11", "databases of kind postgresql are not supported yet"),
        ("database: sqlite://", "1:11", "expected a file on this machine"),
        ("database: 'sqlite:///:memory:'", "1:11", "expected a file on this machine"),
        ("database: file://host/x.db", "1:11", "expected a file on this machine"),
        ("database: sqlite:///x.db?mode=ro", "1:11", "expected a file on this machine"),
        ("log_level: loud", "1:12", "the levels are DEBUG"),
        ("log_level: a\nlog_level: b", "2:1", "given twice, in line 1 and in line 2"),
        ("agents_dir: &a x", "1:13", "anchors are not supported"),
        ("agents_dir: a: b", "1:14", 'write agents_dir: "a: b"'),
        ("- a", "1:1", "expected lines such as `key: value`"),
    ],
)
def test_a_wrong_config_is_refused_with_file_and_line(workspace: Path, text: str, place: str, expected: str) -> None:
    (workspace / "config.yaml").write_text(text)

    with pytest.raises(ConfigInvalid) as caught:
        load(workspace)
    assert f"{workspace / 'config.yaml'}:{place}: " in str(caught.value)
    assert expected in str(caught.value)


def test_all_mistakes_of_a_config_are_told_and_an_api_key_never(workspace: Path) -> None:
    (workspace / "config.yaml").write_text("server: {api_key: 12345678, port: x}\nfoo: 1")

    with pytest.raises(ConfigInvalid) as caught:
        load(workspace)
    assert len(str(caught.value).splitlines()) == 3
    assert "12345678" not in str(caught.value)


def test_a_config_that_is_no_text_file_is_refused(workspace: Path) -> None:
    (workspace / "config.yaml").write_bytes("log_level: INFO".encode("utf-16"))
    with pytest.raises(ConfigInvalid, match=r"config\.yaml: the file is encoded as UTF-16"):
        load(workspace)
    (workspace / "config.yaml").unlink()
    (workspace / "config.yaml").mkdir()
    with pytest.raises(ConfigInvalid, match=r"config\.yaml: the file is a folder"):
        load(workspace)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.db", "work/x.db"),
        ("../x.db", "x.db"),
        ("sqlite:///x.db", "work/x.db"),
        ("sqlite:///a%20b.db", "work/a b.db"),
        ("file:x.db", "work/x.db"),
    ],
)
def test_a_database_may_be_a_path_or_a_url(workspace: Path, text: str, expected: str) -> None:
    (workspace / "config.yaml").write_text(f'database: "{text}"')

    assert load(workspace).database == workspace.parent / expected


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "file://{}", "file://localhost{}"])
def test_a_database_may_be_anywhere(workspace: Path, form: str) -> None:
    (workspace / "config.yaml").write_text(f"database: {form.format('/data/x.db')}")

    assert load(workspace).database == Path("/data/x.db")


def test_xdg_config_home_is_where_the_user_config_is(workspace: Path) -> None:
    folder = workspace.parent / "xdg"
    (folder / "agentmd").mkdir(parents=True)
    (folder / "agentmd" / "config.yaml").write_text("log_level: ERROR")

    assert load(workspace, {"XDG_CONFIG_HOME": str(folder)}).log_level == "ERROR"
    assert load(workspace, {"XDG_CONFIG_HOME": "xdg"}).log_level == "INFO"


def test_what_dotenv_says_is_read_again_when_it_changes(workspace: Path) -> None:
    settings = load(workspace)
    assert "A" not in settings.environment()
    (workspace / ".env").write_text("A=1")
    assert settings.environment()["A"] == "1"
    (workspace / ".env").write_text("A=two")
    assert settings.environment()["A"] == "two"
    (workspace / ".env").write_text("A=2\nno line")
    with pytest.raises(ConfigInvalid, match=r"\.env:2: "):
        settings.environment()
    (workspace / ".env").unlink()
    assert settings.dotenv == {}


def test_the_real_environment_wins_over_dotenv(workspace: Path) -> None:
    (workspace / ".env").write_text(
        "A=s3cret\nB=s3cret\nAGENTMD_API_KEY=k\nAGENTMD_LOG_LEVEL=ERROR\nAGENTMD_WORKSPACE=/x"
    )

    settings = load(workspace, {"B": "real", "AGENTMD_LOG_LEVEL": "DEBUG"})

    assert (settings.environment()["A"], settings.environment()["B"]) == ("s3cret", "real")
    assert (settings.server.api_key, settings.log_level) == ("k", "DEBUG")
    assert settings.origins["server.api_key"] == "AGENTMD_API_KEY"
    assert "s3cret" not in repr(settings)


def test_an_unusable_variable_is_named(workspace: Path) -> None:
    with pytest.raises(ConfigInvalid, match='AGENTMD_LOG_LEVEL: "loud" is not a level'):
        load(workspace, {"AGENTMD_LOG_LEVEL": "loud"})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# a comment\n\nA=1\r\nexport B = two words  \n", {"A": "1", "B": "two words"}),
        ("A=a#b\nB=a #b\nC=\nD= # c\nE=#c", {"A": "a#b", "B": "a", "C": "", "D": "", "E": "#c"}),
        ('A="two\nlines"\nB=1', {"A": "two\nlines", "B": "1"}),
        ('A=\'a #b $X \\n\'\nB="a\\n\\"b\\" \\\\ $X" # c', {"A": "a #b $X \\n", "B": 'a\n"b" \\ $X'}),
        ("A=x=y==", {"A": "x=y=="}),
        ("A=it's", {"A": "it's"}),
    ],
)
def test_dotenv_values(text: str, values: dict[str, str]) -> None:
    assert parse_env_file(text, ".env") == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nsecret-value", r"\.env:2: this line is not NAME=value"),
        ("A-B=secret-value", r"\.env:1: this line is not NAME=value"),
        ("A=1\n\nA=secret-value", r"\.env:3: A is given twice, in line 1 and in line 3"),
        ("A='secret-value", r"\.env:1: the quotes of A are not closed"),
        ('A="secret-value" x', r"\.env:1: the quotes of A are not closed"),
    ],
)
def test_a_wrong_dotenv_line_is_named_without_its_value(text: str, expected: str) -> None:
    with pytest.raises(ConfigInvalid, match=expected) as caught:
        parse_env_file(text, ".env")
    assert "secret-value" not in str(caught.value)


def test_a_dotenv_that_is_a_folder_is_no_dotenv(workspace: Path) -> None:
    (workspace / ".env").mkdir()

    assert load(workspace).dotenv == {}


def test_a_dotenv_that_is_no_text_is_refused(workspace: Path) -> None:
    (workspace / ".env").write_bytes(b"A=\xff")

    with pytest.raises(ConfigInvalid, match="not UTF-8"):
        load(workspace)


def found(cwd: Path, home: Path, environ: Mapping[str, str] | None = None) -> tuple[Path, str]:
    settings = load_settings(None, environ=environ or {}, cwd=cwd, home=home)
    return settings.workspace, settings.origins["workspace"]


def test_the_workspace_is_found_in_order(workspace: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "agentmd").mkdir(parents=True)
    inner = workspace / "agents" / "deep"
    inner.mkdir()
    other = tmp_path / "other"
    (other / ".agentmd").mkdir(parents=True)

    assert found(inner, home) == (workspace, "current folder")
    assert found(other, home) == (other, "current folder")
    assert found(tmp_path, home) == (home / "agentmd", "~/agentmd")
    assert found(inner, home, {"AGENTMD_WORKSPACE": str(other)}) == (other, "AGENTMD_WORKSPACE")
    assert found(tmp_path, home, {"AGENTMD_WORKSPACE": "other", "WORKSPACE": "work"}) == (other, "AGENTMD_WORKSPACE")
    assert found(tmp_path, home, {"AGENTMD_WORKSPACE": "~/agentmd"}) == (home / "agentmd", "AGENTMD_WORKSPACE")
    assert found(inner, home, {"AGENTMD_WORKSPACE": ""}) == (workspace, "current folder")
    given = load_settings(Path("work"), environ={"AGENTMD_WORKSPACE": str(other)}, cwd=tmp_path, home=home)
    assert (given.workspace, given.origins["workspace"]) == (workspace, "--workspace")


def test_an_agents_folder_without_agents_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "agents" / "_config").mkdir(parents=True)
    (tmp_path / "agents" / "_config" / "notes.md").touch()
    (tmp_path / "agents" / "a.memory.md").touch()

    with pytest.raises(ConfigInvalid, match=r"no workspace found: .*--workspace or AGENTMD_WORKSPACE"):
        found(tmp_path, tmp_path / "home")


def test_a_named_workspace_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"the workspace was given as .*/nope, which is not a folder"):
        load_settings(Path("nope"), environ={}, cwd=tmp_path, home=tmp_path)
    with pytest.raises(ConfigInvalid, match="AGENTMD_WORKSPACE names"):
        found(tmp_path, tmp_path, {"AGENTMD_WORKSPACE": "nope"})
