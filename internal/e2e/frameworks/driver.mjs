// Talks with a model by a framework that runs tools: a talk a line on stdin, what came of it a line on stdout.
//
// The argument names the framework. The fields of both are those of talk and heard in frameworks_test.go.

import { createInterface } from 'node:readline';

const answer = await { 'ai-sdk': aiSDK, langchain }[process.argv.at(-1)]();
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}

async function aiSDK() {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
  const { generateText, jsonSchema, stepCountIs, streamText, tool } = await import('ai');

  return async (talk) => {
    const seen = { texts: [], calls: [], ran: [] };
    const provider = createOpenAICompatible({ name: 'toolgate', baseURL: talk.base_url, apiKey: talk.api_key });
    const get_weather = tool({
      description: 'Weather of a place.',
      inputSchema: jsonSchema({ type: 'object', properties: { place: { type: 'string' } }, required: ['place'] }),
      execute: ({ place }) => weather(place, seen.ran),
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
  };
}

async function langchain() {
  const { HumanMessage } = await import('@langchain/core/messages');
  const { tool } = await import('@langchain/core/tools');
  const { ChatOpenAI } = await import('@langchain/openai');
  const { z } = await import('zod');

  return async (talk) => {
    const seen = { texts: [], calls: [], ran: [] };
    const schema = z.object({ place: z.string() });
    const getWeather = tool(({ place }) => weather(place, seen.ran), { name: 'get_weather', description: 'Weather of a place.', schema });
    const options = { model: talk.model, apiKey: talk.api_key, configuration: { baseURL: talk.base_url } };
    const model = new ChatOpenAI(options).bindTools([getWeather]);
    const messages = [];
    for (const prompt of talk.prompts) {
      messages.push(new HumanMessage(prompt));
      let message;
      while ((message = await ask(model, messages, talk.mode)).tool_calls.length > 0) {
        messages.push(message);
        for (const call of message.tool_calls) {
          seen.calls.push(call.name);
          messages.push(await getWeather.invoke(call));
        }
      }
      messages.push(message);
      seen.texts.push(message.text);
    }
    return seen;
  };

  async function ask(model, messages, mode) {
    if (mode !== 'stream') return model.invoke(messages);
    let whole;
    for await (const chunk of await model.stream(messages)) whole = whole ? whole.concat(chunk) : chunk;
    return whole;
  }
}

function weather(place, ran) {
  ran.push(place);
  return `31 degrees in ${place}`;
}
