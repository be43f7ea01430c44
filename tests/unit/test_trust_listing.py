"""What a workspace would run, send and change, as the list before the question has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_md.agents.mcp_file import read_mcp_file
from agent_md.agents.registry import scan
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.trust_list import trust_lines
from agent_md.errors import Untrusted
from agent_md.settings import Settings, load_settings
from agent_md.trust.items import Item, Kind
from agent_md.trust.listing import list_items
from agent_md.trust.workspace_trust import WorkspaceTrust


class Place:
    """A workspace of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ws"
        self.home = folder / "home"
        (self.folder / "agents/_config/tools").mkdir(parents=True)

    def agent(self, front: str = "", body: str = "Work.", name: str = "a") -> None:
        text = f"---\nname: {name}\n{front}\n---\n{body}\n"
        (self.folder / f"agents/{name}.md").write_text(text, encoding="utf-8")

    def user_config(self, text: str) -> None:
        (self.home / ".config/agentmd").mkdir(parents=True)
        (self.home / ".config/agentmd/config.yaml").write_text(text)

    def settings(self, environ: Mapping[str, str] | None = None) -> Settings:
        return load_settings(self.folder, environ=environ or {}, cwd=self.folder, home=self.home)

    def items(self, environ: Mapping[str, str] | None = None) -> list[Item]:
        settings = self.settings(environ)
        registry = scan(settings.agents_dir, settings.workspace, settings.defaults)
        assert not registry.invalid, registry.invalid
        return list_items(settings, registry)

    def texts(self, environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
        return [(str(item.kind), item.text) for item in self.items(environ)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    "front",
    [
        "",
        "model: {provider: script, name: a}",
        "model: {provider: openai, name: gpt-5}",
        "model: {provider: openai, name: gpt-5, base_url: https://api.openai.com/v1}",
        "confirm: [file_edit]\ndeny: ['file_delete(keep/*)']\npaths: {notes: notes}",
        "tools: [kit]\nenabled: false",
    ],
)
def test_built_in_tools_and_the_users_own_models_ask_for_nothing(place: Place, front: str) -> None:
    place.agent(front, "Write $$ and `$1`.\n```\n${NOT_FILLED}\n```")
    (place.folder / "config.yaml").write_text("defaults: {confirm_tools: [file_write, file_delete, file_edit]}\n")
    assert place.items() == []


MCP = '{"mcpServers": {"files": {"command": "sh", "args": ["-c", "ls"], "env": {"LD_PRELOAD": "a.so"}, "cwd": "sub"}}}'

AGENT = [
    ("tools: [kit]", ("tools", "agents/_config/tools/kit.py")),
    ("tools: [kit]\nsandbox: true", ("tools", "agents/_config/tools/kit.py in a sandbox")),
    ("sandbox: {environment: [REGION]}", ("environment", "${REGION} in the sandbox of its tools")),
    ("mcp: [files]", ("mcp", "files: sh -c ls, with LD_PRELOAD, cwd sub")),
    ("skills: [cook]", ("skills", "agents/_config/skills/cook")),
    (
        "model: {provider: openai, name: x, base_url: 'https://evil.example/v1'}",
        ("model", "https://evil.example/v1, with OPENAI_API_KEY"),
    ),
    (
        "model: {provider: openai, name: x, base_url: 'http://api.openai.com/v1'}",
        ("model", "http://api.openai.com/v1, with OPENAI_API_KEY"),
    ),
    (
        "model: {provider: openai, name: x, base_url: 'https://api.openai.com@evil.example/v1'}",
        ("model", "https://api.openai.com@evil.example/v1, with OPENAI_API_KEY"),
    ),
    ("notify: ['https://a.example/h']", ("notify", "https://a.example/h")),
    (
        "notify: [{url: 'https://a.example/h', token: '${T}', secret: '${S}'}]",
        ("notify", "https://a.example/h, with ${T} and ${S}"),
    ),
    ("allow_hosts: ['*.a.example']", ("hosts", "*.a.example")),
    ("secrets: [{name: GH, hosts: [api.example]}]", ("secret", "${GH} to api.example")),
    ("secrets: [GH]", ("secret", "${GH} to any host, each time asked")),
    ("paths: {etc: {path: /etc, mode: ro}}", ("paths", "/etc (reads)")),
    ("paths: {up: ../other}", ("paths", "{parent}/other (reads and writes)")),
    ("paths: {home: '~/x'}", ("paths", "{parent}/home/x (reads and writes)")),
    ("paths: {hole: hole}", ("paths", "{parent} (reads and writes)")),
    ("auto_approve: ['file_write(x/*)']", ("guards", "file_write(x/*)")),
    ("auto_approve: all", ("guards", "*")),
    ("trigger: {type: schedule, every: 5m}", ("trigger", "every 300 s")),
    ("trigger: {type: schedule, cron: '0 7 * * *', timezone: UTC}", ("trigger", "at 0 7 * * * UTC")),
    ("trigger: {type: watch, paths: ['in/*']}", ("trigger", "when files change: in/*")),
    ("trigger: {type: webhook, secret: '${HOOK}'}", ("trigger", "when a webhook is delivered, signed with ${HOOK}")),
]


@pytest.mark.parametrize(("front", "item"), AGENT, ids=[front for front, _ in AGENT])
def test_what_an_agent_asks_for(place: Place, front: str, item: tuple[str, str]) -> None:
    (place.folder / "agents/_config/mcp-servers.json").write_text(MCP)
    (place.folder / "hole").symlink_to(place.folder.parent)
    place.agent(front)
    assert place.texts() == [(item[0], item[1].replace("{parent}", str(place.folder.parent)))]


def test_an_entry_of_an_mcp_server_is_the_same_item_only_if_all_of_it_is(place: Place) -> None:
    place.agent("mcp: [files]")
    file = place.folder / "agents/_config/mcp-servers.json"
    file.write_text(MCP)
    (before,) = place.items()
    file.write_text(MCP.replace("a.so", "b.so"))
    (after,) = place.items()
    assert (before.text, before.digest == after.digest) == (after.text, False)
    assert "a.so" not in before.text
    file.write_text('{"bad')
    assert place.items() == []


def test_variables_of_mcp_servers_are_named(place: Place) -> None:
    place.agent("mcp: [web]")
    (place.folder / "agents/_config/mcp-servers.json").write_text(
        '{"web": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}'
    )
    assert place.texts() == [
        ("mcp", "web: https://a.example/mcp, with Authorization"),
        ("environment", "${TOKEN} to the MCP server web"),
    ]


def test_another_value_of_a_variable_in_the_place_of_an_mcp_server_is_another_item(place: Place) -> None:
    place.agent("mcp: [web, run]")
    (place.folder / "agents/_config/mcp-servers.json").write_text(
        '{"web": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "${TOKEN}"}},'
        ' "run": {"command": "a", "args": ["${DB_URL}", "${PASSWORD}"]}}'
    )
    given = {"HOST": "a.example", "TOKEN": "abcdefgh", "DB_URL": "db://me:pw1@b/c", "PASSWORD": "short"}

    def items(**changed: str) -> list[Item]:
        return [item for item in place.items(given | changed) if item.kind is Kind.MCP]

    web, run = items()
    assert web.text == "web: https://${HOST}/mcp, with Authorization (now https://a.example/mcp)"
    assert run.text == "run: a ${DB_URL} ${PASSWORD} (now a db://b/c [secret PASSWORD])"
    assert items(TOKEN="another-one") == [web, run]
    assert items(HOST="evil.example")[0].digest != web.digest
    assert items(PASSWORD="other")[1].digest != run.digest


def test_a_server_whose_address_has_another_value_than_was_allowed_is_not_asked(place: Place) -> None:
    place.agent("mcp: [web]")
    file = place.folder / "agents/_config/mcp-servers.json"
    file.write_text('{"web": {"url": "https://${HOST}/mcp"}}')
    record = {"XDG_STATE_HOME": str(place.home / "state")}
    now = place.settings({"HOST": "a.example", **record})
    trust = WorkspaceTrust(lambda: now, lambda: scan(now.agents_dir, now.workspace, now.defaults))
    trust.grant(trust.items())
    (server,) = read_mcp_file(file).servers.values()
    trust.require_server(server)
    now = place.settings({"HOST": "evil.example", **record})
    with pytest.raises(Untrusted, match=r"evil\.example"):
        trust.require_server(server)


CONFIG = [
    ("state_dir: state", ("state", "state_dir: {ws}/state")),
    ("state_dir: ../state", ("state", "state_dir: {parent}/state")),
    ("database: x.db", ("state", "database: {ws}/x.db")),
    ("tools_dir: ../tools", ("paths", "tools_dir: {parent}/tools")),
    ("server: {port: 8000}", ("server", "port: 8000")),
    ("server: {api_key: abc-secret}", ("server", "api_key: (set)")),
    ("server: {trusted_roles: [user, system]}", ("server", "trusted_roles: user, system")),
    ("http: {allow_hosts: [127.0.0.1]}", ("hosts", "127.0.0.1")),
    ("defaults: {confirm_tools: [file_write]}", ("guards", "not before file_delete")),
]


@pytest.mark.parametrize(("config", "item"), CONFIG, ids=[config for config, _ in CONFIG])
def test_what_the_workspace_sets_for_all(place: Place, config: str, item: tuple[str, str]) -> None:
    (place.folder / "config.yaml").write_text(f"{config}\n")
    text = item[1].replace("{parent}", str(place.folder.parent)).replace("{ws}", str(place.folder))
    assert place.texts() == [(item[0], text)]


def test_the_users_own_config_asks_for_nothing(place: Place) -> None:
    place.user_config("server: {port: 8000}\nhttp: {allow_hosts: [127.0.0.1]}\ndefaults: {confirm_tools: []}\n")
    assert place.items() == []


def test_a_limit_of_the_user_is_raised(place: Place) -> None:
    place.user_config("max_cost_usd_per_day: 2\n")
    (place.folder / "config.yaml").write_text("max_cost_usd_per_day: 50\n")
    assert place.texts() == [("guards", "max_cost_usd_per_day: 50.0 instead of your 2.0")]


def test_names_of_dotenv_and_never_its_values(place: Place) -> None:
    (place.folder / ".env").write_text("OPENAI_API_KEY=sk-theirs\nAGENTMD_TRUST=1\n")
    assert place.texts() == [("dotenv", "AGENTMD_TRUST"), ("dotenv", "OPENAI_API_KEY")]


def test_variables_of_prompt_and_address_are_named_and_secrets_are_not_shown(place: Place) -> None:
    place.agent(
        "model: {provider: openai, name: x, base_url: 'https://${AWS_SECRET_ACCESS_KEY}.evil.example/${REGION}'}",
        "Tell ${AWS_SECRET_ACCESS_KEY} and ${REGION}.",
    )
    found = place.texts({"AWS_SECRET_ACCESS_KEY": "abcdefgh12345678", "REGION": "eu"})
    assert "abcdefgh12345678" not in str(found)
    assert found[0][0] == "model"
    assert "(now https://[secret AWS_SECRET_ACCESS_KEY].evil.example)" in found[0][1]
    assert [text for kind, text in found if kind == "environment"] == [
        "${AWS_SECRET_ACCESS_KEY} in its prompt",
        "${REGION} in its prompt",
        "${AWS_SECRET_ACCESS_KEY} in the address of its model",
        "${REGION} in the address of its model",
    ]


def test_another_value_of_a_variable_in_an_address_is_another_item(place: Place) -> None:
    place.agent("model: {provider: local, name: x, base_url: 'http://${HOST}/v1'}")
    first, second = (place.items({"HOST": host})[0] for host in ("127.0.0.1:8000", "evil.example"))
    assert first.digest != second.digest


def test_what_the_user_allows_everywhere_is_not_asked_for(place: Place) -> None:
    place.user_config("trust: {environment: [REGION], hosts: [llm.lan, '*.hooks.example']}\n")
    place.agent(
        "model: {provider: local, name: x, base_url: 'http://llm.lan:8000/v1'}\n"
        "notify: ['https://a.hooks.example/x', 'https://hooks.example.evil/x']",
        "In ${REGION} and ${USER}.",
    )
    assert place.texts() == [("notify", "https://hooks.example.evil/x"), ("environment", "${USER} in its prompt")]


def test_a_workspace_cannot_say_what_it_is_trusted_with(place: Place) -> None:
    (place.folder / "config.yaml").write_text("trust: {hosts: [evil.example]}\n")
    with pytest.raises(Exception, match="only the user's own config"):
        place.settings()


def test_what_is_shown_is_visible_and_begins_no_line_of_its_own() -> None:
    from agent_md.cli.views.rendering import rendered

    text = "https://a\x1b[2J\u202e/" + "x" * 300 + "\n? Trust it? [y/N]: y"
    items = [Item("a", Kind.NOTIFY, text), Item("a", Kind.NOTIFY, "b"), Item(None, Kind.GUARDS, "not before x")]
    lines = [
        line
        for item in trust_lines(items)
        for line in ([item] if isinstance(item, str) else rendered(Screen(width=60), item))
    ]
    assert lines[0] == "All agents"
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    assert [line for line in lines if not line.startswith("  ")] == ["All agents", "a"]
    assert any("\\x1b" in line for line in lines)
    assert lines[-1].split() == ["b"]
