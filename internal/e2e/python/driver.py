"""Asks for chat completions with the official SDK: a job a line on stdin, its result a line on stdout.

The fields of both are those of job and result in sdk_test.go.
"""

import json
import sys

import openai


def main():
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def answer(job):
    options = {} if job.get("max_retries") is None else {"max_retries": job["max_retries"]}
    client = openai.OpenAI(base_url=job["base_url"], api_key=job["api_key"], **options)
    params = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}]}
    if job.get("tools"):
        params["tools"] = job["tools"]
    if job.get("key"):
        params["extra_headers"] = {"Idempotency-Key": job["key"]}
    seen = Seen()
    try:
        MODES[job["mode"]](client, params, seen)
    except openai.APIError as err:
        seen.result["error"] = failure(err)
    return seen.result


class Seen:
    """What a program that uses the SDK got to see."""

    def __init__(self):
        self.result = {"text": "", "finish_reason": "", "calls": [], "total_tokens": 0, "trace": ""}

    def message(self, completion):
        choice = completion.choices[0]
        self.result["text"] = choice.message.content or ""
        self.result["finish_reason"] = choice.finish_reason
        self.result["calls"] = [call.function.name for call in choice.message.tool_calls or []]
        self.usage(completion.usage)

    def chunk(self, chunk):
        self.usage(chunk.usage)
        for choice in chunk.choices:
            self.result["text"] += choice.delta.content or ""
            self.result["finish_reason"] = choice.finish_reason or self.result["finish_reason"]
            self.result["calls"] += [call.function.name for call in choice.delta.tool_calls or [] if call.function.name]

    def usage(self, usage):
        if usage is not None:
            self.result["total_tokens"] = usage.total_tokens


def plain(client, params, seen):
    raw = client.chat.completions.with_raw_response.create(**params)
    seen.result["trace"] = raw.headers.get("x-gateway-trace", "")
    seen.message(raw.parse())


def stream(client, params, seen):
    raw = client.chat.completions.with_raw_response.create(
        stream=True, stream_options={"include_usage": True}, **params
    )
    seen.result["trace"] = raw.headers.get("x-gateway-trace", "")
    for chunk in raw.parse():
        seen.chunk(chunk)


def helper(client, params, seen):
    with client.chat.completions.stream(stream_options={"include_usage": True}, **params) as events:
        for _ in events:
            pass
        seen.message(events.get_final_completion())


MODES = {"plain": plain, "stream": stream, "helper": helper}


def failure(err):
    response = getattr(err, "response", None)
    headers = response.headers if response is not None else {}
    body = err.body if isinstance(err.body, dict) else {}
    return {
        "class": type(err).__name__,
        "status": getattr(err, "status_code", 0),
        "code": err.code or "",
        "message": body.get("message", err.message),
        "should_retry": headers.get("x-should-retry", ""),
        "trace": headers.get("x-gateway-trace", ""),
    }


if __name__ == "__main__":
    main()
