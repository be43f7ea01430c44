from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.mcp_file import McpFile, McpServer, parse_mcp_file, read_mcp_file
from agent_md.agents.mcp_names import MOST_CHARACTERS, fits_tool, is_all_of, of_server, prefix, public_name
from agent_md.agents.mcp_values import expanded, variables
from agent_md.agents.rules import Match, RuleInvalid, match, parse_rule
from agent_md.assembly import Assembly
from agent_md.errors import ConfigInvalid, Untrusted
from agent_md.settings import load_settings
from agent_md.tools.mcp.declared import LARGEST, MOST_TOOLS, declared_tools
from agent_md.tools.mcp.messages import LONGEST_MESSAGE, MOST_VALUES, Incoming, ServerFault, ValueCount
from agent_md.tools.mcp.server_log import LARGEST as LARGEST_LOG
from agent_md.tools.mcp.server_log import ServerLog
from agent_md.tools.mcp.servers import McpServers, Surroundings
from agent_md.tools.threads import ToolThreads

FILE = Path("mcp.json")
ENVIRON = {"A": "1", "SOME_ID": "2", "EMPTY": "", "DOLLAR": "${A}"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def parsed(text: str) -> McpFile:
    return parse_mcp_file(text, FILE)


class TestFile:
    @pytest.mark.parametrize(
        "text",
        [
            '{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"B": "2"}}}}',
            '{"mcpServers": {"a": {"type": "stdio", "command": "x", "args": ["1"], "env": {"B": "2"}}}, "other": 1}',
            '{"servers": {"a": {"type": "stdio", "command": "x", "args": ["1"], "env": {"B": 2}}}, "inputs": []}',
            '{"a": {"command": "x", "args": ["1"], "env": {"B": "2"}, "disabled": false, "autoApprove": ["*"]}}',
            '{// a comment, "with" quotes\n"a": {"command": "x", /* , } */ "args": ["1",], "env": {"B": "2"},},\n}',
        ],
    )
    def test_the_shapes_of_other_programs_are_read(self, text: str) -> None:
        server = parsed(text).get("a")
        assert (server.command, server.args, dict(server.env)) == ("x", ("1",), {"B": "2"})

    @pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
    def test_a_server_with_an_address(self, kind: str) -> None:
        server = parsed(f'{{"a": {{"type": "{kind}", "url": "https://x.org/mcp", "headers": {{"K": "${{V}}"}}}}}}').get(
            "a"
        )
        assert server.url == "https://x.org/mcp"
        assert server.variables == ("V",)
        assert server.in_words() == "https://x.org/mcp"

    @pytest.mark.parametrize(
        ("entry", "reason"),
        [
            ("{}", "mcpServers.a has neither `command` nor `url`"),
            ("3", "mcpServers.a must be an object"),
            ('{"command": "x", "url": "http://y"}', "has both `command` and `url`"),
            ('{"command": ""}', "mcpServers.a.command: must be a text that is not empty"),
            ('{"command": "x", "args": "y"}', ".args: must be a list of texts"),
            ('{"command": "x", "env": {"A": null}}', ".env.A: must be a text, not null"),
            ('{"command": "x", "headers": {}}', ".headers: goes with `url` only"),
            ('{"url": "http://x", "env": {}}', ".env: goes with `command` only"),
            ('{"url": "file:///x"}', ".url: must begin with http"),
            ('{"type": "sse", "url": "http://x"}', "the SSE transport is not supported"),
            ('{"type": "http", "command": "x"}', 'is "http", which goes with `url`'),
            ('{"type": "ws", "url": "http://x"}', '.type: must be "stdio" or "http"'),
            ('{"command": "x", "timeout": 30000}', ".timeout: must be a number of seconds, at most 3600"),
            ('{"command": "x", "comand": "x"}', ".comand: unknown key; did you mean command?"),
        ],
    )
    def test_a_wrong_entry_is_told_with_its_place_and_hides_no_other(self, entry: str, reason: str) -> None:
        file = parsed(f'{{"mcpServers": {{"a": {entry}, "b": {{"command": "x"}}}}}}')
        assert file.get("b").command == "x"
        with pytest.raises(ConfigInvalid) as raised:
            file.get("a")
        assert reason in str(raised.value)
        assert str(raised.value).startswith("mcp.json: ")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("[]", "must be an object"),
            ('{"a": {"command": "x"},\n "b" 3}', "mcp.json:2: is no JSON"),
            ('{"a": {"command": "x"}, "a": {}}', "'a' is given twice"),
            ('{"mcpServers": 3}', "mcpServers must be an object of servers by name"),
            ("[" * 5000, "is nested too deeply"),
        ],
    )
    def test_what_is_no_file_of_servers(self, text: str, reason: str) -> None:
        with pytest.raises(ConfigInvalid, match=reason):
            parsed(text)

    def test_names_that_are_too_much_alike_are_refused(self) -> None:
        file = parsed('{"my server": {"command": "x"}, "my_server": {"command": "y"}, "c": {"command": "z"}}')
        assert file.get("c")
        with pytest.raises(ConfigInvalid, match="too much alike"):
            file.get("my server")

    def test_no_file_has_no_servers(self, tmp_path: Path) -> None:
        assert not read_mcp_file(tmp_path / "mcp.json").servers

    def test_the_digest_is_of_what_is_started_not_of_how_long_it_may_take(self) -> None:
        more = ("", ', "timeout": 5', ', "idempotent": false')
        others = (', "args": ["y"]', ', "idempotent": true', ', "idempotent": ["b"]')
        same, changed = (
            [parsed(f'{{"a": {{"command": "x"{text}}}}}').get("a").digest for text in texts] for texts in (more, others)
        )
        assert len(set(same)) == 1
        assert len({*same, *changed}) == 1 + len(changed)


class TestValues:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("x${A}y${env:A}", "x1y1"),
            ("${input:some-id}", "2"),
            ("${EMPTY:-d} ${NONE:-} ${EMPTY}|", "d  |"),
            ("${workspaceFolder}/${workspaceFolderBasename} ${userHome}", "/w/s/s /home/u"),
            ("${DOLLAR} $A", "${A} $A"),
        ],
    )
    def test_placeholders(self, text: str, value: str) -> None:
        assert expanded(text, ENVIRON, Path("/w/s"), Path("/home/u"), "here") == value

    @pytest.mark.parametrize(
        ("text", "reason"),
        [("${NONE}", "variable NONE"), ("${input:b c}", "variable B_C"), ("${command:x}", "is no placeholder")],
    )
    def test_what_is_missing_is_named(self, text: str, reason: str) -> None:
        with pytest.raises(ConfigInvalid, match=reason):
            expanded(text, ENVIRON, Path("/w"), Path("/h"), "here")

    def test_variables_are_listed_by_name(self) -> None:
        assert variables("${A}${workspaceFolder}${env:B}${input:c-d}${E:-f}") == ["A", "B", "C_D", "E"]


class TestNames:
    @pytest.mark.parametrize(
        ("server", "tool", "name"),
        [
            ("git", "git_commit", "git__git_commit"),
            ("my server", "a.b/c", "my_server__a_b_c"),
            ("a__b", "c", "a_b__c"),
            ("1st", "x", "mcp_1st__x"),
            ("日本", "x", "server__x"),
        ],
    )
    def test_a_name_is_one_that_providers_take(self, server: str, tool: str, name: str) -> None:
        assert public_name(server, tool) == name
        assert prefix(prefix(server)) == prefix(server)
        assert fits_tool(f"{server}.{tool}", name)
        assert fits_tool(f"{server}.*", name)
        assert fits_tool(name, name)

    def test_long_names_are_cut_and_stay_apart(self) -> None:
        names = {public_name("server" * 10, "tool" * 20 + end) for end in "ab"}
        assert len(names) == 2
        assert all(len(name) <= MOST_CHARACTERS for name in names)

    def test_other_servers_and_tools_are_not_meant(self) -> None:
        assert not fits_tool("git.*", "github__push")
        assert not fits_tool("git.push", "git__pull")
        assert not fits_tool("git", "git__push")
        assert is_all_of("git.*", "git")
        assert not is_all_of("git.push", "git")
        assert of_server("git.push", "git")
        assert of_server("git__push", "git")
        assert not of_server("github.push", "git")

    @pytest.mark.parametrize("text", ["git.*", "git.push(branch=main)", "git.*(branch=main)", "git__push"])
    def test_rules_take_these_names(self, text: str) -> None:
        assert match(parse_rule(text), "git__push", {"branch": "main"}, None) is Match.YES

    @pytest.mark.parametrize("text", ["*.push", "git.*.x", ".*"])
    def test_other_stars_are_no_rules(self, text: str) -> None:
        with pytest.raises(RuleInvalid):
            parse_rule(text)


class TestDeclarations:
    def test_what_cannot_be_told_to_a_model_is_left_out_with_the_reason(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(100):
            deep = {"type": "object", "properties": {"a": deep}}
        found, wrong = declared_tools(
            "s",
            [
                ("good", "", SCHEMA),
                ("good", "", SCHEMA),
                ("text", "", {"type": "string"}),
                ("large", "x" * LARGEST, SCHEMA),
                ("deep", "", deep),
                ("", "", SCHEMA),
                ("none", "", {}),
            ],
        )
        assert [tool.name for tool in found] == ["s__good", "s__none"]
        assert found[1].parameters == {"type": "object", "properties": {}}
        assert len(wrong) == 5

    def test_more_tools_than_any_model_can_choose_from_are_left_out(self) -> None:
        found, wrong = declared_tools("s", [(f"t{n}", "", {}) for n in range(MOST_TOOLS + 30)])
        assert len(found) == MOST_TOOLS
        assert len(wrong) == 20


class TestMessages:
    MESSAGE = b'{"jsonrpc": "2.0", "method": "notifications/message"}\n'

    def test_messages_are_put_together_from_pieces(self) -> None:
        incoming = Incoming(lambda junk: None)
        pieces = [self.MESSAGE[:10], self.MESSAGE[10:] + self.MESSAGE + self.MESSAGE[:5], self.MESSAGE[5:]]
        assert [len(list(incoming.feed(piece))) for piece in pieces] == [0, 2, 1]

    def test_what_is_no_message_is_dropped_and_kept_for_the_log(self) -> None:
        junk: list[bytes] = []
        incoming = Incoming(junk.append)
        assert len(list(incoming.feed(b"Welcome\n{}\n" + self.MESSAGE))) == 1
        assert junk == [b"Welcome\n{}\n"]

    def test_values_are_counted_outside_of_texts_however_the_json_is_split(self) -> None:
        data = rb'{"a,[": [1, 2, {"b\",": "\\"}], "c": ",,,"}'
        counts = set()
        for size in range(1, len(data) + 1):
            count = ValueCount()
            for start in range(0, len(data), size):
                count.add(data[start : start + size])
            counts.add(count.count)
        assert counts == {6}

    def test_a_text_with_many_commas_is_one_value(self) -> None:
        message = b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "' + b",[" * MOST_VALUES + b'"}}\n'
        assert len(list(Incoming(lambda junk: None).feed(message))) == 1

    @pytest.mark.parametrize(
        ("piece", "reason"),
        [
            (b"x" * (LONGEST_MESSAGE // 100), "MiB"),
            (b"\n" * 4000, "what is no message"),
            (MESSAGE * 100, "nobody asked for"),
            (b'{"jsonrpc": "2.0", "id": 1, "result": {"a": [' + b"[]," * MOST_VALUES + b"[]]}}\n", "values"),
        ],
    )
    def test_a_server_that_goes_on_and_on_is_done_with(self, piece: bytes, reason: str) -> None:
        incoming = Incoming(lambda junk: None)
        with pytest.raises(ServerFault, match=reason):
            deque((message for _ in range(200) for message in incoming.feed(piece)), maxlen=0)


class TestLog:
    def test_it_is_bounded_and_has_whole_lines_without_secrets(self, tmp_path: Path) -> None:
        file = tmp_path / "s.log"

        def opened(aside: bool) -> Any:
            if aside:
                file.replace(tmp_path / "s.1.log")
            return file.open("ab")

        log = ServerLog(opened, lambda text: text.replace("secret", "***"))
        log.write(b"one sec")
        log.write(b"ret\ntwo\nthr")
        assert file.read_text() == "one ***\ntwo\n"
        assert log.last_line == "two"
        log.end()
        assert file.read_text().endswith("thr\n")
        for _ in range(100):
            log.write(b"x" * (LARGEST_LOG // 8) + b"\n")
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 2 * LARGEST_LOG


def test_secrets_in_the_file_of_variables_of_a_server_are_known_as_they_are_now(tmp_path: Path) -> None:
    (tmp_path / "agents/_config").mkdir(parents=True)
    (tmp_path / "agents/_config/mcp-servers.json").write_text('{"a": {"command": "x", "envFile": "a.env"}}')
    mcp = Assembly(load_settings(tmp_path, environ={}, cwd=tmp_path, home=tmp_path / "home")).mcp
    assert mcp.secrets() == {}
    for value in ("abcdefgh1234", "another-value"):
        (tmp_path / "a.env").write_text(f"API_TOKEN={value}\nPLACE=here\n")
        assert mcp.secrets() == {"a_API_TOKEN": value}
    (tmp_path / "a.env").write_text("no variable")
    assert mcp.secrets() == {}


def test_a_server_that_is_not_allowed_at_the_moment_of_its_start_is_not_started(tmp_path: Path) -> None:
    def refuse(entry: McpServer) -> None:
        raise Untrusted(f"{entry.name} leads elsewhere now")

    def no_log(server: str) -> Any:
        raise AssertionError("it was started")

    threads = ToolThreads(lambda: None)
    servers = McpServers(Surroundings(tmp_path, tmp_path, dict, no_log, str, permit=refuse), threads)
    entry = McpServer("a", command="touch", args=(str(tmp_path / "started"),))
    assert "leads elsewhere now" in str(servers.listed([entry])["a"].failure)
    servers.close()
    assert not (tmp_path / "started").exists()
