"""The ollama package against a running server."""
import asyncio
import importlib.metadata

import ollama
import rig

client = ollama.Client(host=rig.BASE)
MESSAGES = [{"role": "user", "content": rig.QUESTION}]
OPTIONS = {"temperature": 0, "num_predict": rig.TOKENS}


def models():
    assert [m.model for m in client.list().models] == [rig.MODEL] == [m.model for m in client.ps().models]
    shown = client.show(rig.MODEL)
    assert shown.capabilities[0] == "completion" and shown.details.family and shown.modelinfo["general.architecture"]


def chat():
    got = client.chat(model=rig.MODEL, messages=MESSAGES, options=OPTIONS)
    rig.same(got.message.content, rig.said())
    assert got.done_reason == "stop" and got.eval_count > 0 and got.total_duration > 0


def chat_stream():
    parts = list(client.chat(model=rig.MODEL, messages=MESSAGES, options=OPTIONS, stream=True))
    rig.same("".join(p.message.content for p in parts), rig.said())
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]


def chat_tools():
    got = client.chat(model=rig.MODEL, messages=MESSAGES, tools=[rig.TOOL], options=OPTIONS).message
    assert got.content or got.tool_calls
    call = {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    turns = MESSAGES + [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "sunny", "tool_name": "get_weather"}]
    assert client.chat(model=rig.MODEL, messages=turns, tools=[rig.TOOL], options=OPTIONS).message.content


def generate():
    rig.same(client.generate(model=rig.MODEL, prompt=rig.QUESTION, options=OPTIONS).response, rig.said())
    parts = client.generate(model=rig.MODEL, prompt=rig.QUESTION, raw=True, options=OPTIONS, stream=True)
    rig.same("".join(p.response for p in parts), rig.continued())


def embed():
    assert "generates text" in rig.raises(ollama.ResponseError, lambda: client.embed(model=rig.MODEL, input="a")).error
    if not rig.ENCODER:
        return "no encoder was given; refused by a model that generates"
    other = ollama.Client(host=rig.ENCODER)
    near, same, far = other.embed(model=rig.encoder_name(), input=["a cat sleeps", "a kitten naps", "tax law of 1986"]).embeddings
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert dot(near, same) > dot(near, far)
    assert list(other.embeddings(model=rig.encoder_name(), prompt="a cat sleeps").embedding) == list(near)


def pull():
    assert [p.status for p in client.pull(rig.MODEL, stream=True)][-1] == "success"
    assert rig.raises(ollama.ResponseError, lambda: client.pull("hf:no/model")).status_code == 403


def errors():
    assert rig.raises(ollama.ResponseError, lambda: client.chat(model="other", messages=MESSAGES)).status_code == 404
    assert "temperature" in rig.raises(ollama.ResponseError, lambda: client.chat(model=rig.MODEL, messages=MESSAGES, options={"temperature": -1})).error


def asynchronous():
    async def ask(other):
        return "".join([p.message.content async for p in await other.chat(model=rig.MODEL, messages=MESSAGES, options=OPTIONS, stream=True)])

    async def all_of_them():
        other = ollama.AsyncClient(host=rig.BASE)
        return await asyncio.gather(*(ask(other) for _ in range(8)))
    for text in asyncio.run(all_of_them()):
        rig.same(text, rig.said())


rig.main("ollama", importlib.metadata.version("ollama"), [models, chat, chat_stream, chat_tools, generate, embed, pull, errors, asynchronous])
