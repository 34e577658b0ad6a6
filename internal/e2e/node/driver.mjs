// Asks for chat completions with the official SDK: a job a line on stdin, its result a line on stdout. The fields of
// both are those of job and result in sdk_test.go.

import OpenAI from 'openai';
import { createInterface } from 'node:readline';

const modes = { plain, stream, helper };

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}

async function answer(job) {
  const options = { baseURL: job.base_url, apiKey: job.api_key };
  if (job.max_retries != null) options.maxRetries = job.max_retries;
  if (job.key) options.defaultHeaders = { 'Idempotency-Key': job.key };
  const params = { model: job.model, messages: [{ role: 'user', content: job.prompt }] };
  if (job.tools) params.tools = job.tools;
  const seen = { text: '', finish_reason: '', calls: [], total_tokens: 0, trace: '' };
  try {
    await modes[job.mode](new OpenAI(options), params, seen);
  } catch (err) {
    if (!(err instanceof OpenAI.APIError)) throw err;
    seen.error = failure(err);
  }
  return seen;
}

async function plain(client, params, seen) {
  const { data, response } = await client.chat.completions.create(params).withResponse();
  seen.trace = response.headers.get('x-gateway-trace') ?? '';
  takeMessage(data, seen);
}

async function stream(client, params, seen) {
  const { data, response } = await client.chat.completions
    .create({ ...params, stream: true, stream_options: { include_usage: true } })
    .withResponse();
  seen.trace = response.headers.get('x-gateway-trace') ?? '';
  for await (const chunk of data) {
    seen.total_tokens = chunk.usage?.total_tokens ?? seen.total_tokens;
    for (const choice of chunk.choices) {
      seen.text += choice.delta.content ?? '';
      seen.finish_reason = choice.finish_reason ?? seen.finish_reason;
      seen.calls.push(...(choice.delta.tool_calls ?? []).map((c) => c.function?.name).filter(Boolean));
    }
  }
}

async function helper(client, params, seen) {
  const events = client.chat.completions.stream({ ...params, stream_options: { include_usage: true } });
  takeMessage(await events.finalChatCompletion(), seen);
}

function takeMessage(completion, seen) {
  const [choice] = completion.choices;
  seen.text = choice.message.content ?? '';
  seen.finish_reason = choice.finish_reason;
  seen.calls = (choice.message.tool_calls ?? []).map((c) => c.function.name);
  seen.total_tokens = completion.usage?.total_tokens ?? 0;
}

function failure(err) {
  return {
    class: err.constructor.name,
    status: err.status ?? 0,
    code: err.code ?? '',
    message: err.error?.message ?? err.message,
    should_retry: err.headers?.get('x-should-retry') ?? '',
    trace: err.headers?.get('x-gateway-trace') ?? '',
  };
}
