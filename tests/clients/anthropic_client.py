"""The anthropic package against a running server."""
import asyncio

import anthropic
import rig

client = anthropic.Anthropic(base_url=rig.BASE, api_key="none", max_retries=0)
# The package has no temperature of its own any more.
ASKED = {"model": rig.MODEL, "messages": [{"role": "user", "content": rig.QUESTION}], "max_tokens": rig.TOKENS, "extra_body": {"temperature": 0}}
TOOL = {"name": "get_weather", "description": "The weather of a city.", "input_schema": rig.TOOL["function"]["parameters"]}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def message():
    got = client.messages.create(**ASKED)
    rig.same(text_of(got), rig.said())
    assert (got.stop_reason, got.role, got.type, got.model) == ("end_turn", "assistant", "message", rig.MODEL)
    assert got.usage.input_tokens + (got.usage.cache_read_input_tokens or 0) > 20 and got.usage.output_tokens > 5


def message_blocks():
    blocks = [{"role": "user", "content": [{"type": "text", "text": rig.QUESTION, "cache_control": {"type": "ephemeral"}}]}]
    rig.same(text_of(client.messages.create(**{**ASKED, "messages": blocks}, system=[{"type": "text", "text": rig.SYSTEM}])), rig.said())


def stops():
    got = client.messages.create(**ASKED, stop_sequences=[" is"])
    assert (got.stop_reason, got.stop_sequence) == ("stop_sequence", " is") and " is" not in text_of(got)
    assert client.messages.create(**{**ASKED, "max_tokens": 2}).stop_reason == "max_tokens"


def stream_events():
    events = list(client.messages.create(**ASKED, stream=True))
    kinds = [e.type for e in events]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds
    rig.same("".join(e.delta.text for e in events if e.type == "content_block_delta"), rig.said())


def stream_helper():
    with client.messages.stream(**ASKED) as stream:
        rig.same("".join(stream.text_stream), rig.said())
        got = stream.get_final_message()
    rig.same(text_of(got), rig.said())
    assert got.stop_reason == "end_turn" and got.usage.output_tokens > 5


def tools():
    assert client.messages.create(**ASKED, tools=[TOOL]).content
    turns = ASKED["messages"] + [{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}]},
                                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}]
    assert client.messages.create(**{**ASKED, "messages": turns}, tools=[TOOL]).content
    return "SmolLM2 was trained for no tools; tool_use is tested by tests/program_serve_messages.py"


def count_tokens():
    got = client.messages.count_tokens(model=rig.MODEL, messages=ASKED["messages"])
    usage = client.messages.create(**ASKED).usage
    assert got.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def models():
    assert client.models.list().data[0].id == rig.MODEL


def errors():
    error = rig.raises(anthropic.NotFoundError, lambda: client.messages.create(**{**ASKED, "model": "other"}))
    assert error.body["error"]["type"] == "not_found_error", error.body
    error = rig.raises(anthropic.BadRequestError, lambda: client.messages.create(**{**ASKED, "messages": []}))
    assert error.body["error"]["type"] == "invalid_request_error", error.body
    rig.raises(anthropic.BadRequestError, lambda: client.messages.create(**{**ASKED, "messages": [{"role": "user", "content": "a b " * 20000}]}))
    rig.raises(anthropic.BadRequestError, lambda: client.messages.create(**{**ASKED, "extra_body": {"temperature": "hot"}}))


def asynchronous():
    async def all_of_them():
        async with anthropic.AsyncAnthropic(base_url=rig.BASE, api_key="none", max_retries=0) as other:
            return await asyncio.gather(*(other.messages.create(**ASKED) for _ in range(8)))
    for got in asyncio.run(all_of_them()):
        rig.same(text_of(got), rig.said())


def cancel():
    stream = client.messages.create(**{**ASKED, "max_tokens": 1500, "extra_body": {"ignore_eos": True}}, stream=True)
    next(iter(stream))
    stream.close()
    rig.idle()


rig.main("anthropic", anthropic.__version__, [message, message_blocks, stops, stream_events, stream_helper, tools, count_tokens, models, errors, asynchronous, cancel])
