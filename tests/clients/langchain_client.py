"""The langchain-openai package against a running server."""
import asyncio
import importlib.metadata

import rig
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

SHARED = {"base_url": rig.BASE + "/v1", "api_key": "none", "model": rig.MODEL, "temperature": 0, "max_tokens": rig.TOKENS, "max_retries": 0}
chat_model = ChatOpenAI(**SHARED)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny in " + city


def chat():
    got = chat_model.invoke(rig.QUESTION)
    rig.same(got.content, rig.said())
    assert got.usage_metadata["output_tokens"] > 0 and got.response_metadata["finish_reason"] == "stop"


def chat_stream():
    rig.same("".join(part.content for part in chat_model.stream(rig.QUESTION)), rig.said())


def chat_batch():
    for got in chat_model.batch([rig.QUESTION] * 4):
        rig.same(got.content, rig.said())


def chat_tools():
    assert chat_model.bind_tools([get_weather]).invoke(rig.QUESTION)
    call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1", "type": "tool_call"}
    turns = [HumanMessage("How is the weather in Paris?"), AIMessage("", tool_calls=[call]), ToolMessage("sunny", tool_call_id="call_1")]
    assert chat_model.bind_tools([get_weather]).invoke(turns).content


def completion():
    rig.same(OpenAI(**SHARED).invoke(rig.QUESTION), rig.continued())


def completion_stream():
    rig.same("".join(OpenAI(**SHARED).stream(rig.QUESTION)), rig.continued())


def embeddings():
    if not rig.ENCODER:
        return "no encoder was given"
    model = OpenAIEmbeddings(base_url=rig.ENCODER + "/v1", api_key="none", model=rig.encoder_name(), check_embedding_ctx_length=False)
    first, second = model.embed_documents(["a cat", "a dog"])
    assert len(first) == len(second) == len(model.embed_query("a cat")) > 10


def errors():
    rig.raises(Exception, lambda: ChatOpenAI(**{**SHARED, "model": "other"}).invoke("a"))
    error = rig.raises(Exception, lambda: chat_model.with_structured_output({"title": "a", "type": "object", "properties": {}}, method="json_schema").invoke("a"))
    assert "422" in str(error), error


def asynchronous():
    async def all_of_them():
        return await asyncio.gather(*(chat_model.ainvoke(rig.QUESTION) for _ in range(4)))
    for got in asyncio.run(all_of_them()):
        rig.same(got.content, rig.said())


rig.main("langchain-openai", importlib.metadata.version("langchain-openai"),
         [chat, chat_stream, chat_batch, chat_tools, completion, completion_stream, embeddings, errors, asynchronous])
