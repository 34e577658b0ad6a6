// Talks with a model by the AI SDK, which runs tools: a talk a line on stdin, what came of it a line on stdout. The
// fields of both are those of talk and heard in frameworks_test.go.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { createInterface } from 'node:readline';

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}

async function answer(talk) {
  const seen = { texts: [], calls: [], ran: [] };
  const provider = createOpenAICompatible({ name: 'toolgate', baseURL: talk.base_url, apiKey: talk.api_key });
  const get_weather = tool({
    description: 'Weather of a place.',
    inputSchema: jsonSchema({ type: 'object', properties: { place: { type: 'string' } }, required: ['place'] }),
    execute: ({ place }) => {
      seen.ran.push(place);
      return `31 degrees in ${place}`;
    },
  });
  const messages = [];
  for (const prompt of talk.prompts) {
    messages.push({ role: 'user', content: prompt });
    const options = { model: provider(talk.model), messages, tools: { get_weather }, stopWhen: stepCountIs(5) };
    const result = talk.mode === 'stream' ? streamText(options) : await generateText(options);
    seen.texts.push(await result.text);
    seen.calls.push(...(await result.steps).flatMap((step) => step.toolCalls.map((call) => call.toolName)));
    messages.push(...(await result.response).messages);
  }
  return seen;
}
