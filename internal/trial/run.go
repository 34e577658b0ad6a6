package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/script"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

// World is what a case runs in.
type World struct {
	Tools  *registry.Set
	Model  *models.Model
	Stub   func(tool string, s *Stub) error // makes a tool answer so; an error where there is no such tool
	Logger *slog.Logger
}

// Run runs the case and gives what was not as wanted.
func (c *Case) Run(ctx context.Context, w World) ([]string, error) {
	for name, s := range c.Tools.All() {
		if err := w.Stub(name, &s); err != nil {
			return []string{err.Error()}, nil
		}
	}
	body := []byte(`{"model":"trial","messages":[{"role":"user","content":` + string(chat.Quote(c.Ask)) + `}]}`)
	req, err := chat.ParseRequest(body)
	if err != nil {
		return nil, err
	}
	m := &model{turns: c.Turns}
	run := loop.Run{
		Request: req, Model: m, View: w.Tools.View(nil, fields(c.Caller.JSON()), w.Model.Tools), Prompt: w.Model.Prompt,
		Limits: w.Model.Limits, Price: w.Model.Price, Instructions: w.Model.Instructions,
		Record: trace.NewRun(time.Now()), Content: true, Logger: w.Logger, Now: time.Now,
	}
	result, err := run.Do(ctx)
	return append(m.check(run.Record), c.check(result, err)...), nil
}

// fields are the caller's fields of a JSON text, with the numbers as they are written.
func fields(text json.RawMessage) map[string]any {
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return map[string]any{}
	}
	return out
}

// check holds the end of the run against the case.
func (c *Case) check(result *loop.Result, err error) (faults []string) {
	code := ""
	var failure *loop.Error
	if errors.As(err, &failure) {
		code = string(failure.Kind)
	}
	if code != c.Error {
		text := ""
		if err != nil {
			text = ": " + failure.Text
		}
		faults = append(faults, fmt.Sprintf("error: want %q, got %q%s", c.Error, code, text))
	}
	if c.Stop != "" && string(result.Stop) != c.Stop {
		faults = append(faults, fmt.Sprintf("stop: want %s, got %s", c.Stop, result.Stop))
	}
	if c.Answer == nil || err != nil || result.Turn == nil {
		return faults
	}
	text := result.Turn.Text
	if result.Content != nil {
		text = *result.Content
	}
	if fault := c.Answer.fault(text); fault != "" {
		faults = append(faults, "answer: "+fault)
	}
	return faults
}

// model says what the case's turns say.
type model struct {
	turns []Turn
	asked int
	over  bool
}

// Ask gives the next turn. Beyond the last one it fails.
func (m *model) Ask(_ context.Context, a upstream.Ask) (*upstream.Answer, error) {
	if m.asked == len(m.turns) {
		m.over = true
		return nil, &upstream.Error{Upstream: "trial", Kind: upstream.Broken, Err: errors.New("the case has no further turn")}
	}
	t := m.turns[m.asked]
	m.asked++
	reply := script.Turn{Text: t.Text, Calls: t.Calls, Finish: t.Finish}
	turn, err := chat.ReadReply(reply.Reply(m.asked, a.Request))
	if err != nil {
		return nil, err
	}
	return &upstream.Answer{Turn: turn, Upstream: "trial"}, nil
}

// check holds what the model read against the case. The calls of the trace are in the order of the turns.
func (m *model) check(record *trace.Run) (faults []string) {
	if m.over {
		faults = append(faults, fmt.Sprintf("turns: the model was asked once more than the case has turns (%d)", len(m.turns)))
	}
	if m.asked < len(m.turns) {
		faults = append(faults, fmt.Sprintf("turns: the model was asked %d times, and the case has %d turns", m.asked, len(m.turns)))
	}
	for i, t := range m.turns {
		var seen []trace.Call
		for _, c := range record.Calls {
			if c.Step == i+1 {
				seen = append(seen, c)
			}
		}
		for j, want := range t.Observed {
			what := fmt.Sprintf("turn %d, call %d (%s)", i+1, j+1, t.Calls[j].Name)
			if j >= len(seen) {
				faults = append(faults, what+": was not made")
				continue
			}
			if fault := want.fault(readable(seen[j].Result)); fault != "" {
				faults = append(faults, what+": "+fault)
			}
		}
	}
	return faults
}

// readable is an observation as a person writes it: of a failure the code and the message.
func readable(text string) string {
	if e := gjson.Get(text, "error"); gjson.Valid(text) && gjson.Get(text, "ok").Type == gjson.False && e.IsObject() {
		return e.Get("code").String() + ": " + e.Get("message").String()
	}
	return text
}
