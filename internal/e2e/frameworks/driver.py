"""Talks with a model by a framework that runs tools: a talk a line on stdin, what came of it a line on stdout.

The argument names the framework. The fields of both are those of talk and heard in frameworks_test.go.
"""

import asyncio
import json
import sys


def main():
    answer = FRAMEWORKS[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def weather(place, ran):
    ran.append(place)
    return f"31 degrees in {place}"


def openai_agents():
    import agents
    import openai

    agents.set_tracing_disabled(True)

    def answer(talk):
        return asyncio.run(run(talk))

    async def run(talk):
        seen = {"texts": [], "calls": [], "ran": []}

        @agents.function_tool
        def get_weather(place: str) -> str:
            """Weather of a place."""
            return weather(place, seen["ran"])

        async with openai.AsyncOpenAI(base_url=talk["base_url"], api_key=talk["api_key"]) as client:
            model = agents.OpenAIChatCompletionsModel(model=talk["model"], openai_client=client)
            agent = agents.Agent(name="assistant", model=model, tools=[get_weather])
            messages = []
            for prompt in talk["prompts"]:
                messages.append({"role": "user", "content": prompt})
                if talk["mode"] == "stream":
                    result = agents.Runner.run_streamed(agent, messages)
                    async for _ in result.stream_events():
                        pass
                else:
                    result = await agents.Runner.run(agent, messages)
                messages = result.to_input_list()
                seen["texts"].append(result.final_output)
                seen["calls"] += [i.raw_item.name for i in result.new_items if i.type == "tool_call_item"]
        return seen

    return answer


def langchain():
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    def answer(talk):
        seen = {"texts": [], "calls": [], "ran": []}

        @tool
        def get_weather(place: str) -> str:
            """Weather of a place."""
            return weather(place, seen["ran"])

        model = ChatOpenAI(base_url=talk["base_url"], api_key=talk["api_key"], model=talk["model"])
        model = model.bind_tools([get_weather])
        messages = []
        for prompt in talk["prompts"]:
            messages.append(HumanMessage(prompt))
            while True:
                message = ask(model, messages, talk["mode"])
                messages.append(message)
                if not message.tool_calls:
                    break
                for call in message.tool_calls:
                    seen["calls"].append(call["name"])
                    messages.append(get_weather.invoke(call))
            seen["texts"].append(message.text)
        return seen

    def ask(model, messages, mode):
        if mode != "stream":
            return model.invoke(messages)
        whole = None
        for chunk in model.stream(messages):
            whole = chunk if whole is None else whole + chunk
        return whole

    return answer


def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def read(_, events):
        async for _ in events:
            pass

    def answer(talk):
        return asyncio.run(run(talk))

    async def run(talk):
        seen = {"texts": [], "calls": [], "ran": []}

        def get_weather(place: str) -> str:
            """Weather of a place."""
            return weather(place, seen["ran"])

        provider = OpenAIProvider(base_url=talk["base_url"], api_key=talk["api_key"])
        agent = Agent(OpenAIChatModel(talk["model"], provider=provider), tools=[get_weather])
        messages = []
        for prompt in talk["prompts"]:
            # A handler of events makes it stream. run_stream would take the text before a call for the answer.
            handler = read if talk["mode"] == "stream" else None
            result = await agent.run(prompt, message_history=messages, event_stream_handler=handler)
            messages = result.all_messages()
            seen["texts"].append(result.output)
            parts = [part for message in result.new_messages() for part in message.parts]
            seen["calls"] += [part.tool_name for part in parts if isinstance(part, ToolCallPart)]
        return seen

    return answer


def llama_index():
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.memory import Memory
    from llama_index.llms.openai_like import OpenAILike

    def answer(talk):
        return asyncio.run(run(talk))

    async def run(talk):
        seen = {"texts": [], "calls": [], "ran": []}

        def get_weather(place: str) -> str:
            """Weather of a place."""
            return weather(place, seen["ran"])

        llm = OpenAILike(
            model=talk["model"],
            api_base=talk["base_url"],
            api_key=talk["api_key"],
            is_chat_model=True,
            is_function_calling_model=True,
        )
        agent = FunctionAgent(tools=[get_weather], llm=llm, streaming=talk["mode"] == "stream")
        memory = Memory.from_defaults()
        for prompt in talk["prompts"]:
            result = await agent.run(prompt, memory=memory)
            seen["texts"].append(result.response.content)
            seen["calls"] += [call.tool_name for call in result.tool_calls]
        return seen

    return answer


FRAMEWORKS = {
    "openai-agents": openai_agents,
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "llama-index": llama_index,
}


if __name__ == "__main__":
    main()
