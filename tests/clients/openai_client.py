"""The openai package against a running server."""
import asyncio

import openai
import rig

client = openai.OpenAI(base_url=rig.BASE + "/v1", api_key="none", max_retries=0)
MESSAGES = [{"role": "user", "content": rig.QUESTION}]
ASKED = {"model": rig.MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": rig.TOKENS}
PROMPT = {"model": rig.MODEL, "prompt": rig.QUESTION, "temperature": 0, "max_tokens": rig.TOKENS}


def models():
    assert [m.id for m in client.models.list()] == [rig.MODEL]
    assert client.models.retrieve(rig.MODEL).object == "model"


def chat():
    got = client.chat.completions.create(**ASKED)
    rig.same(got.choices[0].message.content, rig.said())
    assert got.choices[0].finish_reason == "stop" and got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens
    got = client.chat.completions.with_raw_response.create(**ASKED).parse()
    rig.same(got.choices[0].message.content, rig.said())


def chat_parts():
    parts = [{"role": "user", "content": [{"type": "text", "text": rig.QUESTION}]}]
    rig.same(client.chat.completions.create(**{**ASKED, "messages": parts}).choices[0].message.content, rig.said())


def chat_stream():
    chunks = list(client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True}))
    rig.same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), rig.said())
    assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices


def chat_stream_helper():
    with client.chat.completions.stream(**ASKED) as stream:
        kinds = {event.type for event in stream}
        rig.same(stream.get_final_completion().choices[0].message.content, rig.said())
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds


def chat_logprobs():
    got = client.chat.completions.create(**ASKED, logprobs=True, top_logprobs=3).choices[0]
    assert "".join(t.token for t in got.logprobs.content).startswith(got.message.content)
    assert all(len(t.top_logprobs) == 3 and t.logprob <= 0 and bytes(t.bytes).decode() == t.token for t in got.logprobs.content)


def chat_choices():
    got = client.chat.completions.create(**{**ASKED, "temperature": 1}, n=3, seed=5)
    again = client.chat.completions.create(**{**ASKED, "temperature": 1}, n=3, seed=5)
    assert [c.index for c in got.choices] == [0, 1, 2]
    assert [c.message.content for c in got.choices] == [c.message.content for c in again.choices]


def chat_stop():
    got = client.chat.completions.create(**ASKED, stop=[" is"]).choices[0]
    assert got.finish_reason == "stop" and " is" not in got.message.content
    assert client.chat.completions.create(**{**ASKED, "max_tokens": 2}).choices[0].finish_reason == "length"


def chat_tools():
    got = client.chat.completions.create(**ASKED, tools=[rig.TOOL]).choices[0]
    assert got.message.content or got.message.tool_calls
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    turns = MESSAGES + [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
    assert client.chat.completions.create(**{**ASKED, "messages": turns}, tools=[rig.TOOL]).choices[0].message.content
    return "SmolLM2 was trained for no tools; calls are tested by tests/program_serve.py"


def completion():
    got = client.completions.create(**PROMPT)
    rig.same(got.choices[0].text, rig.continued())
    got = client.completions.create(**{**PROMPT, "prompt": [rig.QUESTION, "Once upon"]})
    assert len(got.choices) == 2
    rig.same(got.choices[0].text, rig.continued())


def completion_echo():
    got = client.completions.create(**{**PROMPT, "max_tokens": 1}, echo=True, logprobs=1).choices[0]
    assert got.text.startswith(rig.QUESTION) and got.logprobs.token_logprobs[0] is None
    assert all(p <= 0 for p in got.logprobs.token_logprobs[1:]) and len(got.logprobs.tokens) == len(got.logprobs.text_offset)


def completion_stream():
    rig.same("".join(c.choices[0].text for c in client.completions.create(**PROMPT, stream=True)), rig.continued())


def responses():
    asked = {"model": rig.MODEL, "input": rig.QUESTION, "temperature": 0, "max_output_tokens": rig.TOKENS}
    first = client.responses.create(**asked)
    rig.same(first.output_text, rig.said())
    assert client.responses.retrieve(first.id).output_text == first.output_text
    events = list(client.responses.create(**asked, stream=True))
    rig.same("".join(e.delta for e in events if e.type == "response.output_text.delta"), rig.said())
    with client.responses.stream(**asked) as stream:
        assert {"response.created", "response.completed"} <= {event.type for event in stream}
        rig.same(stream.get_final_response().output_text, rig.said())
    second = client.responses.create(**{**asked, "input": "And of Italy?"}, previous_response_id=first.id)
    assert second.usage.input_tokens > client.responses.input_tokens.count(model=rig.MODEL, input="And of Italy?").input_tokens + len(first.output_text.split())
    assert [item.type for item in client.responses.input_items.list(second.id)] == ["message"]
    client.responses.delete(first.id)
    assert rig.raises(openai.NotFoundError, lambda: client.responses.retrieve(first.id)).code == "response_not_found"


def embeddings():
    error = rig.raises(openai.BadRequestError, lambda: client.embeddings.create(model=rig.MODEL, input="a"))
    assert "generates text" in error.message
    if not rig.ENCODER:
        return "no encoder was given; refused by a model that generates"
    other = openai.OpenAI(base_url=rig.ENCODER + "/v1", api_key="none", max_retries=0)
    name = rig.encoder_name()
    near, same, far = (e.embedding for e in other.embeddings.create(model=name, input=["a cat sleeps", "a kitten naps", "tax law of 1986"]).data)
    plain = other.embeddings.create(model=name, input="a cat sleeps", encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(near, plain)) < 1e-5
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert dot(near, same) > dot(near, far) and abs(dot(near, near) - 1) < 1e-3


def errors():
    assert rig.raises(openai.NotFoundError, lambda: client.chat.completions.create(**{**ASKED, "model": "other"})).code == "model_not_found"
    assert rig.raises(openai.BadRequestError, lambda: client.chat.completions.create(**{**ASKED, "temperature": -1})).param == "temperature"
    rig.raises(openai.BadRequestError, lambda: client.chat.completions.create(**{**ASKED, "messages": []}))
    error = rig.raises(openai.BadRequestError, lambda: client.completions.create(**{**PROMPT, "prompt": "a b " * 20000}))
    assert error.code == "context_length_exceeded"
    rig.raises(openai.UnprocessableEntityError, lambda: client.chat.completions.create(**ASKED, response_format={"type": "json_object"}))
    rig.raises(openai.NotFoundError, lambda: client.models.retrieve("other"))


def asynchronous():
    async def ask(other):
        got = await other.chat.completions.create(**ASKED)
        text = ""
        async for chunk in await other.chat.completions.create(**ASKED, stream=True):
            text += chunk.choices[0].delta.content or ""
        return got.choices[0].message.content, text

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=rig.BASE + "/v1", api_key="none", max_retries=0) as other:
            return await asyncio.gather(*(ask(other) for _ in range(8)))
    for whole, streamed in asyncio.run(all_of_them()):
        rig.same(whole, rig.said())
        rig.same(streamed, rig.said())


def cancel():
    stream = client.completions.create(**{**PROMPT, "max_tokens": 1500}, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    rig.idle()
    rig.raises(openai.APITimeoutError, lambda: client.with_options(timeout=0.3).completions.create(**{**PROMPT, "max_tokens": 1500}, extra_body={"ignore_eos": True}))
    rig.idle()


rig.main("openai", openai.__version__, [models, chat, chat_parts, chat_stream, chat_stream_helper, chat_logprobs, chat_choices, chat_stop, chat_tools,
                                        completion, completion_echo, completion_stream, responses, embeddings, errors, asynchronous, cancel])
