"""An MCP server on standard input and output, for tests: `add` and `fail`, `draw` with a picture, `die` in the middle of a call, and
`grow`, after which there is `grown` too. It needs nothing but the standard library."""

import base64
import json
import os
import sys

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


NUMBER = {"type": "number"}
tools = {
    "add": schema(a=NUMBER, b=NUMBER), "fail": schema(), "draw": schema(), "die": schema(), "grow": schema(), "whoami": schema(),
}


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def call(name, arguments):
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return text(str(total), structuredContent={"total": total})
    if name == "fail":
        return text("no such city", isError=True)
    if name == "draw":
        base64.b64decode(PIXEL)
        return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}, {"type": "text", "text": "drawn"}]}
    if name == "whoami":
        return text(os.environ.get("SECRET_OF_THE_SERVER", "nobody"))
    if name == "die":
        os._exit(3)
    if name == "grow":
        tools["grown"] = schema()
        send(method="notifications/tools/list_changed")
        return text("grown")
    return text("I am " + name)


for line in sys.stdin:
    request = json.loads(line)
    method, id = request.get("method"), request.get("id")
    if id is None:
        continue
    if method == "initialize":
        send(id=id, result={
            "protocolVersion": request["params"]["protocolVersion"], "serverInfo": {"name": "testing", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}},
        })
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": n, "description": f"The tool {n}.", "inputSchema": s} for n, s in tools.items()]})
    elif method == "tools/call":
        send(id=id, result=call(request["params"]["name"], request["params"].get("arguments") or {}))
    elif method == "ping":
        send(id=id, result={})
    else:
        send(id=id, error={"code": -32601, "message": f"no method {method}"})
