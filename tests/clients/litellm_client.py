"""The litellm package against a running server, through both of its interfaces."""
import asyncio
import importlib.metadata

import litellm
import rig

litellm.num_retries = 0
MESSAGES = [{"role": "user", "content": rig.QUESTION}]
ASKED = {"model": "openai/" + rig.MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": rig.TOKENS, "api_base": rig.BASE + "/v1", "api_key": "none"}
AS_ANTHROPIC = {**ASKED, "model": "anthropic/" + rig.MODEL, "api_base": rig.BASE}


def chat():
    got = litellm.completion(**ASKED)
    rig.same(got.choices[0].message.content, rig.said())
    assert got.usage.completion_tokens > 0


def chat_stream():
    rig.same("".join(c.choices[0].delta.content or "" for c in litellm.completion(**ASKED, stream=True)), rig.said())


def chat_tools():
    assert litellm.completion(**ASKED, tools=[rig.TOOL]).choices[0].message


def completion():
    got = litellm.text_completion(model="text-completion-openai/" + rig.MODEL, prompt=rig.QUESTION, temperature=0, max_tokens=rig.TOKENS,
                                  api_base=rig.BASE + "/v1", api_key="none")
    rig.same(got.choices[0].text, rig.continued())


def embeddings():
    if not rig.ENCODER:
        return "no encoder was given"
    got = litellm.embedding(model="openai/" + rig.encoder_name(), input=["a cat", "a dog"], api_base=rig.ENCODER + "/v1", api_key="none")
    assert len(got.data) == 2 and len(got.data[0]["embedding"]) > 10


def errors():
    rig.raises(litellm.NotFoundError, lambda: litellm.completion(**{**ASKED, "model": "openai/other"}))
    rig.raises(litellm.BadRequestError, lambda: litellm.completion(**{**ASKED, "temperature": -1}))
    error = rig.raises(litellm.BadRequestError, lambda: litellm.completion(**{**ASKED, "messages": [{"role": "user", "content": "a b " * 20000}]}))
    assert isinstance(error, litellm.ContextWindowExceededError), type(error)


def asynchronous():
    async def all_of_them():
        return await asyncio.gather(*(litellm.acompletion(**ASKED) for _ in range(4)))
    for got in asyncio.run(all_of_them()):
        rig.same(got.choices[0].message.content, rig.said())


def messages():
    rig.same(litellm.completion(**AS_ANTHROPIC).choices[0].message.content, rig.said())


def messages_stream():
    rig.same("".join(c.choices[0].delta.content or "" for c in litellm.completion(**AS_ANTHROPIC, stream=True)), rig.said())


rig.main("litellm", importlib.metadata.version("litellm"), [chat, chat_stream, chat_tools, completion, embeddings, errors, asynchronous, messages, messages_stream])
