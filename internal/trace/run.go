// Package trace is the record of a run: what it did, how it shows in a header, and where it can be read afterwards.
package trace

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"
)

// Run is the record of one run. It is written by the goroutine that makes the run and must not change once it is in a
// Store.
type Run struct {
	ID        string
	RequestID string
	Caller    string // who made it, unlike every other; "" where no key is asked for
	Model     string // as the client named it
	Stream    bool
	Start     time.Time
	Took      time.Duration
	Stop      string // "" while the run is under way
	Offered   int    // tools of the gateway that the model saw
	Steps     []Step
	Calls     []Call
	Usage     json.RawMessage
	Cost      float64
	Shortened int    // tool results that were cut as the model's context was full
	Tainted   string // the first untrusted tool whose answer is in the conversation; Unknown where that can't be told
	Approval  string // id of what a call waits for; of several choices all, with commas
	Lost      int    // turns of the client's history that call tools, of which nothing is held
	Error     string // code of the error that the client got
	Notes     []string
}

// Step is one model call.
type Step struct {
	Upstream string
	Start    time.Duration // after the run's start
	Took     time.Duration
	Finish   string
	Prompt   int64 // tokens
	Output   int64
	Error    string // kind of failure
}

// Call is one call of a gateway tool that the model made, refused ones too.
type Call struct {
	Step      int // from 1
	Name      string
	Start     time.Duration
	Took      time.Duration
	Outcome   string // "ok", "skipped", or the code of the observation
	Arguments string // with trace.content only
	Result    string
}

// OK is the outcome of a good call, Skipped that of one that was no longer needed.
const (
	OK      = "ok"
	Skipped = "skipped"
)

// Unknown is what Tainted is where nothing is held of what the conversation holds. No tool has such a name.
const Unknown = "(unknown)"

// NewRun begins the record of a run.
func NewRun(start time.Time) *Run { return &Run{ID: NewID("run_"), Start: start} }

// NewID is a new id with that beginning: a ULID, which sorts by its time. It takes no lock. Where a ULID has chance
// alone, its first two bytes are the part of the millisecond that has passed, so that ids sort as they were made.
func NewID(prefix string) string {
	var id ulid.ULID
	now := time.Now()
	_ = id.SetTime(ulid.Timestamp(now)) // fits until the year 10889
	passed := now.Nanosecond() % int(time.Millisecond)
	binary.BigEndian.PutUint16(id[6:], uint16(passed*(1<<16)/int(time.Millisecond))) //nolint:gosec // below 1<<16
	_, _ = rand.Read(id[8:])                                                         // never fails
	text := make([]byte, len(prefix)+ulid.EncodedSize)
	copy(text, prefix)
	_ = id.MarshalTextTo(text[len(prefix):]) // which has the room
	return string(text)
}

// Failed is how many calls ended in an observation that is an error.
func (r *Run) Failed() int {
	n := 0
	for _, c := range r.Calls {
		if c.Outcome != OK && c.Outcome != Skipped {
			n++
		}
	}
	return n
}

// UpstreamTime is the time that model calls took.
func (r *Run) UpstreamTime() time.Duration {
	var d time.Duration
	for _, s := range r.Steps {
		d += s.Took
	}
	return d
}

// view is the record as JSON, times in milliseconds.
type view struct {
	ID         string          `json:"id"`
	RequestID  string          `json:"request_id,omitempty"`
	Caller     string          `json:"caller,omitempty"`
	Model      string          `json:"model"`
	Stream     bool            `json:"stream"`
	Started    time.Time       `json:"started_at"`
	MS         int64           `json:"ms"`
	UpstreamMS int64           `json:"upstream_ms"`
	Stop       string          `json:"stop"`
	Offered    int             `json:"offered"`
	Steps      []stepView      `json:"steps"`
	Calls      []callView      `json:"calls"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	Cost       float64         `json:"cost,omitempty"`
	Error      string          `json:"error,omitempty"`
	Shortened  int             `json:"shortened,omitempty"`
	Lost       int             `json:"lost,omitempty"`
	Tainted    string          `json:"tainted,omitempty"`
	Approval   string          `json:"approval,omitempty"`
	Notes      []string        `json:"notes,omitempty"`
}

type stepView struct {
	Upstream string `json:"upstream"`
	StartMS  int64  `json:"start_ms"`
	MS       int64  `json:"ms"`
	Finish   string `json:"finish_reason,omitempty"`
	Prompt   int64  `json:"prompt_tokens"`
	Output   int64  `json:"completion_tokens"`
	Error    string `json:"error,omitempty"`
}

type callView struct {
	Step      int    `json:"step"`
	Tool      string `json:"tool"`
	StartMS   int64  `json:"start_ms"`
	MS        int64  `json:"ms"`
	Outcome   string `json:"outcome"`
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
}

// MarshalJSON is the whole record, for /gateway/runs and for X-Gateway-Trace: full.
func (r *Run) MarshalJSON() ([]byte, error) {
	v := view{
		ID: r.ID, RequestID: r.RequestID, Caller: r.Caller, Model: r.Model, Stream: r.Stream, Started: r.Start.UTC(),
		MS: r.Took.Milliseconds(), UpstreamMS: r.UpstreamTime().Milliseconds(), Stop: r.Stop, Offered: r.Offered,
		Usage: r.Usage, Cost: r.Cost, Error: r.Error, Shortened: r.Shortened, Lost: r.Lost, Tainted: r.Tainted, Approval: r.Approval, Notes: r.Notes,
		Steps: make([]stepView, len(r.Steps)), Calls: make([]callView, len(r.Calls)),
	}
	for i, s := range r.Steps {
		v.Steps[i] = stepView{s.Upstream, s.Start.Milliseconds(), s.Took.Milliseconds(), s.Finish, s.Prompt, s.Output, s.Error}
	}
	for i, c := range r.Calls {
		v.Calls[i] = callView{c.Step, c.Name, c.Start.Milliseconds(), c.Took.Milliseconds(), c.Outcome, c.Arguments, c.Result}
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads what MarshalJSON wrote, times to the millisecond.
func (r *Run) UnmarshalJSON(b []byte) error {
	var v view
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	*r = Run{
		ID: v.ID, RequestID: v.RequestID, Caller: v.Caller, Model: v.Model, Stream: v.Stream, Start: v.Started, Took: ms(v.MS), Stop: v.Stop, Offered: v.Offered,
		Usage: v.Usage, Cost: v.Cost, Error: v.Error, Shortened: v.Shortened, Lost: v.Lost, Tainted: v.Tainted, Approval: v.Approval, Notes: v.Notes,
		Steps: make([]Step, len(v.Steps)), Calls: make([]Call, len(v.Calls)),
	}
	for i, s := range v.Steps {
		r.Steps[i] = Step{s.Upstream, ms(s.StartMS), ms(s.MS), s.Finish, s.Prompt, s.Output, s.Error}
	}
	for i, c := range v.Calls {
		r.Calls[i] = Call{c.Step, c.Tool, ms(c.StartMS), ms(c.MS), c.Outcome, c.Arguments, c.Result}
	}
	return nil
}
