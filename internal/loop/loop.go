// Package loop owns one run: its turns, its budget and why it stops. It asks the model, runs the tools that the model
// calls, and asks again until there is an answer. It knows no HTTP.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/guard"
	"github.com/toolgate/toolgate/internal/prompted"
	"github.com/toolgate/toolgate/internal/registry"
	stores "github.com/toolgate/toolgate/internal/state"
	"github.com/toolgate/toolgate/internal/structured"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

// Model is asked for turns. *upstream.Routes is one.
type Model interface {
	Ask(ctx context.Context, a upstream.Ask) (*upstream.Answer, error)
}

// Stream shows a streamed run to its client as it goes. Its methods are called one after the other, from the goroutine
// of the run.
type Stream interface {
	// Begin says that a turn begins. With direct, nothing of it is held until it is long enough. watch makes, for each
	// reply to it, what takes in the pieces of its text and gives how many bytes from the beginning may be shown: the rest
	// can still turn out to be calls.
	Begin(direct bool, watch func() func(text string) int)
	// Header is that of the provider's reply, before its first chunk. What is held of an earlier reply, which failed, is
	// forgotten.
	Header(upstream.Header)
	// Chunk is the next chunk of the turn, valid until the one after it. An error, the client's connection broken, ends the run.
	Chunk(*chat.Chunk) error
	// Wait says that more of the turn is waited for.
	Wait()
	// Started says that a tool of the gateway's begins to run.
	Started(tool string)
	// Hide says that the turn was no answer: what the client has not seen of it stays unseen.
	Hide()
	// Visible says whether the client has seen anything of this turn.
	Visible() bool
	// Shown says whether the client has seen any text of the run.
	Shown() bool
}

// Run is one run to be made.
type Run struct {
	Request      *chat.Request
	Model        Model
	View         *registry.View     // the tools that the model sees, none that the client declares
	Prompt       bool               // the model has no native calls: tools, calls and results are text
	Format       *structured.Format // what the answer has to fit; nil without
	FormatWay    FormatWay
	Limits       budget.Limits
	Spent        *Spent // of the budget, by all runs that share it; nil: this one's own
	Price        budget.Price
	Instructions json.RawMessage // a message before the client's; nil without
	Defaults     []chat.Pair     // members where the client sent none; tool_choice among them is for the first step
	Header       upstream.Header // the client's, for the provider
	Client       upstream.Header // the client's as it came, for tools that forward some of it
	ClientKey    string
	Key          string           // the client's Idempotency-Key, else ""
	Guard        *guard.Guard     // marks results of tools as data; nil leaves them as they are
	Turns        stores.Store     // where turns are held for a client's next request; nil for nowhere
	Memory       bool             // tool turns before an answer are held too
	Record       *trace.Run       // filled as the run goes; its Start is that of the run's clock
	Content      bool             // record arguments and results too
	Stream       Stream           // nil for a reply in one piece
	Logger       *slog.Logger     // required
	Now          func() time.Time // required
}

// Spent is what runs that share a budget have spent of it. The zero value is ready.
type Spent struct {
	mu     sync.Mutex
	calls  int // of gateway tools
	tokens int64
	cost   float64
}

// add counts what a model call cost.
func (s *Spent) add(tokens int64, cost float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens += tokens
	s.cost += cost
}

// call counts a tool call, and says whether it is within the limit.
func (s *Spent) call(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls >= limit {
		return false
	}
	s.calls++
	return true
}

// reached is the limit that tokens or cost have reached.
func (s *Spent) reached(l budget.Limits) Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.Tokens > 0 && s.tokens >= l.Tokens:
		return MaxTokens
	case l.Cost > 0 && s.cost >= l.Cost:
		return MaxCost
	}
	return ""
}

// FormatWay is how a model is asked for an answer that fits a schema.
type FormatWay string

// The ways. With Auto it is Native, and Tool on a route that refuses that.
const (
	Native FormatWay = "native" // response_format goes to the provider
	Tool   FormatWay = "tool"   // it is taken out, and a tool is added whose call is the answer
	Auto   FormatWay = "auto"
)

// Result is how a run ended. It is there beside an error too.
type Result struct {
	Stop     Stop
	Turn     *chat.Turn        // the last one; nil where there was none
	Content  *string           // the answer's text where it is not the turn's own
	Finish   string            // the finish_reason for the client
	Calls    []json.RawMessage // of the client's own tools, for the client to run
	Usage    json.RawMessage   // the sum over the steps; nil where no provider gave one
	Tokens   chat.Tokens       // of Usage
	Header   upstream.Header   // of the last reply
	RanTools bool
	RanWrite bool
	Approval string // id of what the newest call that was not made waits for; "" for nothing
	// Hold holds the run's tool turns and whether its answer is tainted, once it is known how the answer reads to the
	// client; nil where there is nothing to hold.
	Hold func(ctx context.Context, answer string)
}

// The causes with which a run's clock ends what is under way.
var (
	errTime    = errors.New("the run's time is used up")
	errReserve = errors.New("the rest of the run's time is kept for its answer")
)

// Do makes the run. Its errors are *Error.
func (r *Run) Do(ctx context.Context) (*Result, error) {
	end := r.Record.Start.Add(r.Limits.Time)
	ctx, cancel := context.WithDeadlineCause(ctx, end, errTime)
	defer cancel()
	s := newState(r, end)
	s.restore(ctx)
	r.Record.Offered = r.View.Len()
	err := s.steps(ctx)
	s.result.Hold = s.holding(s.result.Hold)
	s.result.Usage = s.usage
	r.Record.Usage, r.Record.Cost = s.usage, s.cost
	r.Record.Stop = string(s.result.Stop)
	return &s.result, err
}

// state is a run under way.
type state struct {
	*Run
	end    time.Time
	result Result
	after  []json.RawMessage // messages behind the client's
	ids    map[string]bool   // of calls in the conversation; nil until one is needed
	step   int               // model calls made

	usage    json.RawMessage
	tokens   chat.Tokens // of the last model call
	cost     float64
	repeats  map[string]int // by tool and arguments
	writes   map[string]int // likewise, of calls that ran
	limit    Stop           // the limit that has been reached, "" before
	bare     bool           // the next step is asked without tools
	lastText string         // the newest text that the model wrote

	texts            *prompted.Reader
	said             string     // of a model that writes calls as text: its turn up to the end of the last one
	madeUp, reproved bool       // it holds a result where no tool has been called; it has been told so
	answer           string     // name of the tool whose call is the answer, "" without
	byTool           bool       // this turn was asked with that tool
	results          []resultAt // of tools, as they stand in after

	client    *conversation   // nil until it is needed
	hint      []byte          // used again for each
	restored  json.RawMessage // the client's messages with what was held of them; nil where nothing was
	recalled  int             // earlier answers whose turns are in it
	forgetful bool            // those of earlier answers are too much for the model
}

// messages are the conversation before the run.
func (s *state) messages() json.RawMessage {
	if s.restored != nil {
		return s.restored
	}
	return s.Request.Member("messages")
}

func newState(r *Run, end time.Time) *state {
	s := &state{Run: r, end: end, repeats: map[string]int{}, writes: map[string]int{}}
	if r.Spent == nil {
		r.Spent = &Spent{}
	}
	names := []iter.Seq[string]{r.View.Names(), r.Request.DeclaredNames()}
	if r.Format != nil {
		s.answer = s.answerName()
		names = append(names, slices.Values([]string{s.answer}))
	}
	s.texts = prompted.New(names...)
	return s
}

// steps goes from turn to turn until the run ends.
func (s *state) steps(ctx context.Context) error {
	for {
		forced := s.forced()
		turn, err := s.ask(ctx, forced)
		if err != nil {
			return err
		}
		again, err := s.take(ctx, turn, forced)
		if err != nil || !again {
			return err
		}
	}
}

// take decides what a turn is: an answer, or calls to be made before the model is asked again.
func (s *state) take(ctx context.Context, turn *chat.Turn, forced bool) (again bool, err error) {
	s.result.Content = nil
	if err := s.readText(turn); err != nil {
		return false, err
	}
	if strings.TrimSpace(turn.Text) != "" {
		defer func() { s.lastText = turn.Text }()
	}
	stop := Completed
	if forced {
		stop = s.reached()
	}
	items := s.sort(turn)
	switch {
	case turn.Finish == chat.FinishContentFilter || turn.Refusal != "":
		return false, s.conclude(Refused, turn.Finish)
	case turn.Finish == chat.FinishLength && cut(turn):
		return false, s.conclude(Length, chat.FinishLength)
	case turn.Finish == chat.FinishLength && len(turn.Calls) == 0:
		return false, s.conclude(Length, chat.FinishLength)
	case s.madeUp && !s.reproved && !forced && s.step < s.Limits.Steps:
		return s.reprove(turn)
	case len(turn.Calls) == 0:
		return s.answered(turn, stop, forced)
	case items.client > 0:
		return false, s.handBack(ctx, items, forced)
	case (forced || s.bare) && items.answer != nil:
		return false, s.lastAnswer(items)
	case s.bare:
		s.record(items)
		return false, s.bareAnswer(turn)
	case forced:
		s.bare = true
		s.record(items)
		s.hide()
		return true, nil
	}
	return s.run(ctx, turn, items)
}

// readText reads calls that a turn has in its text. Of a model that has native calls, the whole text must be calls.
func (s *state) readText(turn *chat.Turn) error {
	if turn.Refusal != "" || turn.Finish == chat.FinishContentFilter {
		return nil
	}
	if s.Prompt {
		s.readPrompt(turn)
		return nil
	}
	if len(turn.Calls) > 0 || s.Request.ToolChoice == "none" {
		return nil
	}
	calls := s.texts.Read(prompted.AfterThoughts(turn.Text))
	if calls == nil {
		return nil
	}
	if err := turn.ReadAs(calls); err != nil {
		s.result.Stop = Failed
		return &Error{Kind: Internal, Text: "calls in the text of the model's turn could not be read", Err: err}
	}
	s.hide()
	s.Logger.Debug("calls read out of a turn's text", slog.String("run_id", s.Record.ID), slog.Int("calls", len(calls)))
	return nil
}

// reached is the limit that a forced step is due to.
func (s *state) reached() Stop {
	if s.limit != "" {
		return s.limit
	}
	return MaxSteps
}

// cut says whether the token limit cut the last call of a turn in two.
func cut(turn *chat.Turn) bool {
	if len(turn.Calls) == 0 {
		return false
	}
	last := turn.Calls[len(turn.Calls)-1]
	var text string
	if json.Unmarshal(last.Arguments, &text) != nil {
		return len(last.Arguments) == 0 || !json.Valid(last.Arguments)
	}
	return !json.Valid([]byte(text))
}

// conclude ends the run with the turn's text.
func (s *state) conclude(stop Stop, finish string) error {
	s.result.Stop, s.result.Finish, s.result.Hold = stop, finish, s.hold(s.after)
	turn := s.result.Turn
	if finish == "" || finish == chat.FinishToolCalls { // a refusal has no calls for the client
		s.result.Finish = chat.FinishStop
	}
	if !turn.Empty() || len(turn.Calls) > 0 || turn.Finish == chat.FinishLength || turn.Finish == chat.FinishContentFilter ||
		turn.Refusal != "" || turn.Reasoning {
		return nil
	}
	switch {
	case s.lastText != "" && (s.Stream == nil || !s.Stream.Shown()):
		s.result.Content = &s.lastText
		return nil
	case s.lastText != "":
		return nil
	}
	s.result.Stop = UpstreamError
	return &Error{Kind: Empty, Text: "the upstream's reply was empty: no text, no calls"}
}

// bareAnswer ends a run whose model called tools even where it had none.
func (s *state) bareAnswer(turn *chat.Turn) error {
	s.result.Stop, s.result.Finish = s.reached(), chat.FinishStop
	if s.Format != nil {
		_, err := s.answered(turn, s.reached(), true)
		return err
	}
	if strings.TrimSpace(turn.Text) == "" {
		return s.exhausted()
	}
	return nil
}

// exhausted is the error of a run that reached a limit without an answer. It says how high the limit is, as clients
// can't see the configuration; but for the cost, which would tell the operator's prices.
func (s *state) exhausted() error {
	limit := string(s.result.Stop)
	switch s.result.Stop { //nolint:exhaustive // the others are no limits that are counted
	case MaxSteps:
		limit += fmt.Sprintf(": %d", s.Limits.Steps)
	case MaxToolCalls:
		limit += fmt.Sprintf(": %d", s.Limits.ToolCalls)
	case MaxTokens:
		limit += fmt.Sprintf(": %d", s.Limits.Tokens)
	case RepeatedCalls:
		limit += fmt.Sprintf(", max_repeats: %d", s.Limits.Repeats)
	}
	return &Error{Kind: Exhausted, Text: fmt.Sprintf("the run reached its budget (%s) without an answer", limit)}
}

// ends ends the run at a limit whose operator wants no further step.
func (s *state) ends(stop Stop) error {
	s.result.Stop = stop
	if s.Limits.OnExhausted == budget.Fail {
		return s.exhausted()
	}
	s.result.Finish = chat.FinishLength
	if turn := s.result.Turn; strings.TrimSpace(turn.Text) == "" {
		s.result.Content = &s.lastText
	}
	return nil
}

func (s *state) hide() {
	if s.Stream != nil {
		s.Stream.Hide()
	}
}
