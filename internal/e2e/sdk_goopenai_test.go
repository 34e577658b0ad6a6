//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	openai "github.com/sashabaranov/go-openai"
)

func TestSDKGoOpenAI(t *testing.T) {
	testSDK(t, sdk{
		start:   func(*testing.T) func(*testing.T, job) result { return askGoOpenAI },
		modes:   []mode{plain, stream},
		classes: map[int]string{400: "APIError", 401: "APIError", 404: "APIError", 422: "APIError", 429: "APIError", 500: "APIError", 0: "APIError"},
	})
}

// askGoOpenAI does a job with sashabaranov/go-openai.
func askGoOpenAI(t *testing.T, j job) result {
	t.Helper()
	config := openai.DefaultConfig(j.APIKey)
	config.BaseURL = j.BaseURL
	client := openai.NewClientWithConfig(config)
	req := openai.ChatCompletionRequest{
		Model:    j.Model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: j.Prompt}},
	}
	if j.Tools != nil {
		if err := json.Unmarshal(j.Tools, &req.Tools); err != nil {
			t.Fatal(err)
		}
	}
	var r result
	var err error
	if j.Mode == plain {
		err = r.completion(t, client, req)
	} else {
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		err = r.stream(t, client, req)
	}
	if err != nil {
		r.Error = goOpenAIFailure(err)
	}
	return r
}

func (r *result) completion(t *testing.T, client *openai.Client, req openai.ChatCompletionRequest) error {
	completion, err := client.CreateChatCompletion(t.Context(), req)
	if err != nil {
		return err
	}
	choice := completion.Choices[0]
	r.Text, r.Finish, r.Total = choice.Message.Content, string(choice.FinishReason), completion.Usage.TotalTokens
	r.Trace = completion.Header().Get(traceHeader)
	for _, call := range choice.Message.ToolCalls {
		r.Calls = append(r.Calls, call.Function.Name)
	}
	return nil
}

func (r *result) stream(t *testing.T, client *openai.Client, req openai.ChatCompletionRequest) error {
	chunks, err := client.CreateChatCompletionStream(t.Context(), req)
	if err != nil {
		return err
	}
	defer chunks.Close()
	r.Trace = chunks.Header().Get(traceHeader)
	for {
		chunk, err := chunks.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if chunk.Usage != nil {
			r.Total = chunk.Usage.TotalTokens
		}
		for _, choice := range chunk.Choices {
			r.Text += choice.Delta.Content
			if choice.FinishReason != "" {
				r.Finish = string(choice.FinishReason)
			}
			for _, call := range choice.Delta.ToolCalls {
				if call.Function.Name != "" {
					r.Calls = append(r.Calls, call.Function.Name)
				}
			}
		}
	}
}

func goOpenAIFailure(err error) *failure {
	var api *openai.APIError
	if !errors.As(err, &api) {
		return &failure{Class: fmt.Sprintf("%T", err), Message: err.Error()}
	}
	code, _ := api.Code.(string) // null is ""
	return &failure{Class: "APIError", Status: api.HTTPStatusCode, Code: code, Message: api.Message}
}
