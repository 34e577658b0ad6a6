// Command openaigo asks for chat completions with the official Go SDK: a job a line on stdin, its result a line on
// stdout. The fields of both are those of job and result in sdk_test.go.
//
// It is a module of its own, since the SDK takes minutes to compile and the gateway does not need it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

type job struct {
	BaseURL    string            `json:"base_url"`
	APIKey     string            `json:"api_key"`
	Model      string            `json:"model"`
	Prompt     string            `json:"prompt"`
	Mode       string            `json:"mode"`
	MaxRetries *int              `json:"max_retries"`
	Tools      []json.RawMessage `json:"tools"`
	Key        string            `json:"key"`
}

type result struct {
	Text   string   `json:"text"`
	Finish string   `json:"finish_reason"`
	Calls  []string `json:"calls"`
	Total  int64    `json:"total_tokens"`
	Trace  string   `json:"trace"`
	Error  *failure `json:"error,omitempty"`
}

type failure struct {
	Class       string `json:"class"`
	Status      int    `json:"status"`
	Code        string `json:"code"`
	Message     string `json:"message"`
	ShouldRetry string `json:"should_retry"`
	Trace       string `json:"trace"`
}

const traceHeader = "X-Gateway-Trace"

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers each line of in, until it ends.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var j job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(answer(context.Background(), j)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(ctx context.Context, j job) result {
	var r result
	var resp *http.Response
	opts := []option.RequestOption{option.WithBaseURL(j.BaseURL), option.WithAPIKey(j.APIKey), option.WithResponseInto(&resp)}
	if j.MaxRetries != nil {
		opts = append(opts, option.WithMaxRetries(*j.MaxRetries))
	}
	if j.Key != "" {
		opts = append(opts, option.WithHeader("Idempotency-Key", j.Key))
	}
	if len(j.Tools) > 0 {
		opts = append(opts, option.WithJSONSet("tools", j.Tools))
	}
	client := openai.NewClient(opts...)
	params := openai.ChatCompletionNewParams{
		Model:    j.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(j.Prompt)},
	}
	var err error
	switch j.Mode {
	case "plain":
		var completion *openai.ChatCompletion
		if completion, err = client.Chat.Completions.New(ctx, params); err == nil {
			r.message(completion)
		}
	default: // stream, and helper, which is the SDK's own accumulator of one
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		err = r.stream(ctx, client, params, j.Mode == "helper")
	}
	if resp != nil {
		r.Trace = resp.Header.Get(traceHeader)
	}
	if err != nil {
		r.Error = failed(err)
	}
	return r
}

func (r *result) message(c *openai.ChatCompletion) {
	choice := c.Choices[0]
	r.Text, r.Finish, r.Total = choice.Message.Content, choice.FinishReason, c.Usage.TotalTokens
	for _, call := range choice.Message.ToolCalls {
		r.Calls = append(r.Calls, call.Function.Name)
	}
}

func (r *result) stream(ctx context.Context, client openai.Client, params openai.ChatCompletionNewParams, accumulate bool) error {
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close() //nolint:errcheck // what matters was read by then
	whole := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		chunk := stream.Current()
		if !whole.AddChunk(chunk) {
			return fmt.Errorf("the accumulator refused a chunk: %s", chunk.RawJSON())
		}
		r.chunk(chunk)
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if accumulate {
		r.Calls = nil
		r.message(&whole.ChatCompletion)
	}
	return nil
}

func (r *result) chunk(c openai.ChatCompletionChunk) {
	if c.Usage.TotalTokens > 0 {
		r.Total = c.Usage.TotalTokens
	}
	for _, choice := range c.Choices {
		r.Text += choice.Delta.Content
		if choice.FinishReason != "" {
			r.Finish = choice.FinishReason
		}
		for _, call := range choice.Delta.ToolCalls {
			if call.Function.Name != "" {
				r.Calls = append(r.Calls, call.Function.Name)
			}
		}
	}
}

func failed(err error) *failure {
	var api *openai.Error
	if !errors.As(err, &api) {
		return &failure{Class: "error", Message: err.Error()}
	}
	f := &failure{Class: "Error", Status: api.StatusCode, Code: api.Code, Message: api.Message}
	if api.Response != nil {
		f.ShouldRetry, f.Trace = api.Response.Header.Get("X-Should-Retry"), api.Response.Header.Get(traceHeader)
	}
	return f
}
