package upstream

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// tooLong is how providers say that a request does not fit into the model's context: OpenAI and Azure
// (context_length_exceeded, maximum context length), Anthropic's compatible endpoint (prompt is too long), Gemini (input
// token count exceeds), Mistral (too large for model with … maximum context length), Groq and DeepSeek (reduce the length
// of the messages), OpenRouter (endpoint's maximum context length), vLLM (maximum model length), llama.cpp
// (exceed_context_size_error, exceeds the available context size), llama-cpp-python (exceed context window), Ollama and
// LM Studio (context length, context overflow). LiteLLM drops the code of the provider behind it and has
// ContextWindowExceededError in its message.
var tooLong = regexp.MustCompile(`(?i)context[_ ]?(length|window|size|limit|overflow)|exceed_context_size|maximum (context|model|prompt|input) length|` +
	`(prompt|input|request|conversation|messages?) (is|are) too (long|large)|input token count|too many (input |prompt )?tokens|` +
	`reduce the length of|(input|prompt) (length|tokens)\b.{0,60}\bexceed|exceeds? the (maximum|max|model'?s) (number of )?(input |prompt )?(tokens|context)`)

// ContextTooLong says whether the provider refused the request as too long for its model, also where it does so under a
// status of 200 or 5xx.
func (e *Error) ContextTooLong() bool {
	switch {
	case e.Began:
		return false
	case e.Kind == Refused && e.Status == http.StatusRequestEntityTooLarge:
		return true
	case e.Kind == Refused, e.Kind == Broken && (e.Status == 0 || e.Status == http.StatusOK || e.Status >= http.StatusInternalServerError):
		return tooLong.MatchString(e.Message) || tooLong.Match(e.Body)
	}
	return false
}

// noFormat is how providers say that they do not take response_format by a schema, or not beside tools.
var noFormat = regexp.MustCompile(`(?i)response[_ ]?format|json[_ ]?schema|response[_ ]?schema|response mime ?type|structured[_ ]outputs?|json mode|guided[_ ]json|grammar`)

// refusesFormat tells a provider that takes no schema beside tools by its error, which some give with a status of 5xx.
func refusesFormat(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Began || e.ContextTooLong() {
		return false
	}
	switch {
	case e.Kind == Refused, e.Kind == Broken && (e.Status == http.StatusOK || e.Status == http.StatusInternalServerError || e.Status == http.StatusNotImplemented):
		return noFormat.MatchString(e.Message) || noFormat.Match(e.Body) && !strings.Contains(string(e.Body), "<html")
	}
	return false
}
