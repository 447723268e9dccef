"""MCP servers built with the official SDK, in all four ways that it serves HTTP.

  server.py CALLBACK     tells the URL CALLBACK the ports ({"stateful-sse": 1234, ...}), and later what happened

Runs with either major version of the SDK, until its parent dies.
"""

import asyncio
import ctypes
import json
import signal
import socket
import sys
import urllib.request
from typing import Annotated

import uvicorn
from pydantic import BaseModel, Field

try:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp_types import ListToolsResult, PaginatedRequestParams
    V2 = True
except ImportError:
    from mcp.server.fastmcp import Context, Image
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.types import ListToolsRequest, ListToolsResult
    V2 = False

PAGE = 2
farewells = []
WAYS = {"stateful-sse": (False, False), "stateful-json": (False, True),
        "stateless-sse": (True, False), "stateless-json": (True, True)}


async def tell(what):
    request = urllib.request.Request(sys.argv[1], data=json.dumps(what).encode(), method="POST")
    await asyncio.to_thread(lambda: urllib.request.urlopen(request).read())


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def blocks():
    """Gives several blocks."""
    return ["one", Image(data=b"png", format="png"), "zwei: ü"]


def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


async def talk(ctx: Context) -> str:
    """Says something on the way."""
    await ctx.info("half")
    return "done"


class Name(BaseModel):
    name: str


async def ask(ctx: Context) -> str:
    """Asks the person at the client."""
    answer = await ctx.elicit("Who are you?", Name)
    return answer.action


async def slow() -> str:
    """Takes until it is cancelled."""
    try:
        await tell({"tool": "started"})
        await asyncio.sleep(3600)
    finally:
        farewells.append(asyncio.create_task(tell({"tool": "ended"})))  # cancelled, it cannot wait itself
    return "never"


def region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Wants its argument as a header too."""
    return region


def page(server):
    """Makes the list of tools come in pages, which the SDK leaves to servers."""
    async def paged(cursor):
        tools = await server.list_tools()
        at = int(cursor or 0)
        following = str(at + PAGE) if at + PAGE < len(tools) else None
        return tools[at:at + PAGE], following

    if V2:
        async def handler(_, params):
            tools, following = await paged(params.cursor)
            return ListToolsResult(tools=tools, next_cursor=following)
        server._lowlevel_server.add_request_handler("tools/list", PaginatedRequestParams, handler)
    else:
        async def handler(request: ListToolsRequest) -> ListToolsResult:
            tools, following = await paged(request.params.cursor if request and request.params else None)
            return ListToolsResult(tools=tools, nextCursor=following)
        server._mcp_server.list_tools()(handler)


def app(stateless, as_json):
    settings = {"stateless_http": stateless, "json_response": as_json}
    server = MCPServer("judge", instructions="Use add.", **({} if V2 else settings))
    for tool in (add, blocks, fail, talk, ask, slow, region):
        server.tool()(tool)
    page(server)
    return server.streamable_http_app(**(settings if V2 else {}))


class Server(uvicorn.Server):
    def install_signal_handlers(self):
        pass

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.ready.set()


async def main():
    servers, ports = [], {}
    for name, way in WAYS.items():
        # Only with the protocol named does asyncio switch off Nagle's delays.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        ports[name] = listening.getsockname()[1]
        server = Server(uvicorn.Config(app(*way), log_level="warning"))
        server.ready = asyncio.Event()
        servers.append((server, asyncio.create_task(server.serve(sockets=[listening]))))
    for server, _ in servers:
        await server.ready.wait()
    await tell(ports)
    await asyncio.gather(*(task for _, task in servers))


ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
asyncio.run(main())
