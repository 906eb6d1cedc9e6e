"""An agent that answers a question with Python: a language model, and a session in which it runs code.

The code can call the functions in TOOLS, which run here: a loop over a thousand texts is one cell for the model.

    python3 agent.py "How many primes are there below a million?"

It needs TALARIA_URL and TALARIA_TOKEN, and OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL for an endpoint with
OpenAI's chat completions API. Nothing else needs to be installed: the endpoint is called with the standard library.
"""

import base64
import json
import os
import sys
import urllib.request

from talaria import Talaria

TOOL = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Run Python. Variables, imports and files persist between calls. The call returns what is "
        "printed and the value of the last expression, and matplotlib figures as images. There is no network. "
        "`from hermes_tools import ask_model`: ask_model(prompt) asks a language model one question, for example to "
        "classify or summarise a text, and returns its answer; call it from threads for many texts.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python code"}},
            "required": ["code"],
        },
    },
}
MOST_STEPS = 20
NEEDED = {
    "TALARIA_URL": "the output of `talaria url`",
    "TALARIA_TOKEN": "the output of `talaria token show`",
    "OPENAI_BASE_URL": "an endpoint with OpenAI's chat completions API, such as http://127.0.0.1:11434/v1",
    "OPENAI_API_KEY": "its key; any text if it needs none",
    "OPENAI_MODEL": "the name of one of its models",
}


def complete(messages, tools):
    """Returns the model's next message."""
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages}
    if tools:
        body["tools"] = tools
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)["choices"][0]["message"]


def ask_model(prompt: str) -> str:
    """Asks a language model one question and returns its answer."""
    return complete([{"role": "user", "content": prompt}], [])["content"]


TOOLS = [ask_model]


def run_python(session, call):
    """Runs the code that the model sent. Returns the messages that answer the call."""
    try:
        code = json.loads(call["function"]["arguments"])["code"]
    except (ValueError, KeyError):
        answer = 'The arguments must be a JSON object: {"code": "…"}'
        return [{"role": "tool", "tool_call_id": call["id"], "content": answer}]
    print(code, end="\n\n", file=sys.stderr)
    # Because of the id, a repeated request does not run the code again.
    execution = session.run(code, id=call["id"], tools=TOOLS)
    text = execution.text or "(no output)"
    if execution.state == "lost":
        text += "\nAll variables are lost; files are kept."
    print(text, end="\n\n", file=sys.stderr)
    messages = [{"role": "tool", "tool_call_id": call["id"], "content": text}]
    images = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}
        for png in execution.pngs
    ]
    if images:  # the result of a tool holds only text, so the images follow in another message
        images.insert(0, {"type": "text", "text": "The figures of run_python:"})
        messages.append({"role": "user", "content": images})
    return messages


def answer(session, question):
    """Lets the model run code until it answers."""
    messages = [{"role": "user", "content": question}]
    for _ in range(MOST_STEPS):
        message = complete(messages, [TOOL])
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            return message["content"]
        results = [run_python(session, call) for call in calls]
        # All answers to calls come before anything else.
        results = [m for r in results for m in r]
        messages += sorted(results, key=lambda m: m["role"] != "tool")
    raise SystemExit(f"no answer after {MOST_STEPS} steps")


def main():
    if len(sys.argv) != 2:
        raise SystemExit('usage: agent.py "QUESTION"')
    missing = [f"set {name} to {value}" for name, value in NEEDED.items() if not os.environ.get(name)]
    if missing:
        raise SystemExit("\n".join(missing))
    talaria = Talaria(os.environ["TALARIA_URL"], os.environ["TALARIA_TOKEN"])
    session = talaria.session(os.environ.get("SESSION", "agent"))
    print(answer(session, sys.argv[1]))


if __name__ == "__main__":
    main()
