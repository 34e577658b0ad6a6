package trace

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/toolgate/toolgate/internal/chat"
)

// Query asks for runs. What is empty asks for any.
type Query struct {
	Access
	Model  string // as the client named it
	Stop   string
	Tool   string    // that was called
	Since  time.Time // those that began at that time or later
	Before string    // id of a run: those that began before it
	Limit  int       // how many at most; default 50, at most MaxPage
}

// MaxPage is the most runs that one answer has.
const MaxPage = 200

const defaultPage = 50

// ErrBadID is the error of an id that is none of a run.
var ErrBadID = errors.New("want the id of a run, such as run_01J8Z3K2M4N5P6Q7R8S9T0V1W2")

// Page is a part of the runs, the newest first.
type Page struct {
	Runs []*Run
	Next string // Before of the next page, "" where there is none
}

func (q *Query) limit() int {
	if q.Limit <= 0 {
		return defaultPage
	}
	return min(q.Limit, MaxPage)
}

// Check says whether there can be an answer.
func (q *Query) Check() error {
	if q.Before == "" {
		return nil
	}
	_, err := begun(q.Before)
	return err
}

// begun is when the run with that id began, to the millisecond: it stands in the id.
func begun(id string) (time.Time, error) {
	u, err := ulid.ParseStrict(strings.TrimPrefix(id, "run_"))
	if err != nil || !strings.HasPrefix(id, "run_") {
		return time.Time{}, ErrBadID
	}
	return ulid.Time(u.Time()), nil
}

// takes says whether a run is asked for, but for Before.
func (q *Query) takes(r *Run) bool {
	return q.sees(r) &&
		(q.Model == "" || r.Model == q.Model) &&
		(q.Stop == "" || r.Stop == q.Stop) &&
		(q.Since.IsZero() || !r.Start.Before(q.Since)) &&
		(q.Tool == "" || slices.ContainsFunc(r.Calls, func(c Call) bool { return c.Name == q.Tool }))
}

// page is the first part of runs, which are all that are asked for.
func (q *Query) page(runs []*Run) Page {
	slices.SortFunc(runs, func(a, b *Run) int { return cmp.Compare(b.ID, a.ID) })
	if n := q.limit(); len(runs) > n {
		return Page{runs[:n], runs[n-1].ID}
	}
	return Page{Runs: runs}
}

// Summary is a run in a list.
type Summary struct {
	ID        string    `json:"id"`
	RequestID string    `json:"request_id,omitempty"`
	Caller    string    `json:"caller,omitempty"`
	Model     string    `json:"model"`
	Stream    bool      `json:"stream"`
	Started   time.Time `json:"started_at"`
	MS        int64     `json:"ms"`
	Stop      string    `json:"stop"`
	Error     string    `json:"error,omitempty"`
	Steps     int       `json:"steps"`
	Calls     int       `json:"calls"`
	Failed    int       `json:"failed"`
	Tools     []string  `json:"tools"` // each once, in the order of their first calls
	Prompt    int64     `json:"prompt_tokens"`
	Output    int64     `json:"completion_tokens"`
	Cost      float64   `json:"cost,omitempty"`
	Approval  string    `json:"approval,omitempty"`
	Tainted   string    `json:"tainted,omitempty"`
}

// Summary is the run as it stands in a list.
func (r *Run) Summary() Summary {
	tokens := chat.ReadTokens(r.Usage)
	s := Summary{
		ID: r.ID, RequestID: r.RequestID, Caller: r.Caller, Model: r.Model, Stream: r.Stream, Started: r.Start.UTC(), MS: r.Took.Milliseconds(),
		Stop: r.Stop, Error: r.Error, Steps: len(r.Steps), Calls: len(r.Calls), Failed: r.Failed(), Tools: []string{},
		Prompt: tokens.Prompt, Output: tokens.Completion, Cost: r.Cost, Approval: r.Approval, Tainted: r.Tainted,
	}
	for _, c := range r.Calls {
		if !slices.Contains(s.Tools, c.Name) {
			s.Tools = append(s.Tools, c.Name)
		}
	}
	return s
}
