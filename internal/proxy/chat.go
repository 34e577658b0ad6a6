package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/limit"
	"github.com/toolgate/toolgate/internal/loop"
	"github.com/toolgate/toolgate/internal/models"
	"github.com/toolgate/toolgate/internal/registry"
	"github.com/toolgate/toolgate/internal/structured"
	"github.com/toolgate/toolgate/internal/trace"
	"github.com/toolgate/toolgate/internal/upstream"
)

// chat handles a chat completion: it is run with the tools that its caller's model sees or, where there are none,
// passed through.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	i := info(r)
	record := trace.NewRun(i.start)
	record.RequestID, record.Caller = i.requestID, i.caller.ID
	i.runID = record.ID
	c := &completion{Server: s, w: w, r: r, info: i, record: record}
	view, limits, err := c.read()
	if err != nil {
		record.Stop = string(loop.Failed)
		i.stop = record.Stop
		w.Header().Set(trace.Header, record.Dictionary())
		return err
	}
	w.Header().Set(trace.Header, record.IDHeader())
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	if c.passes(view) {
		return c.pass()
	}
	return c.once(view, limits)
}

// read reads the request, and finds its model, its tools and its budget. The run's clock starts when it has been read.
func (c *completion) read() (*registry.View, budget.Limits, error) {
	var limits budget.Limits
	if err := wantJSON(c.r); err != nil {
		return nil, limits, err
	}
	body, err := readBody(c.w, c.r, c.info.site.MaxBody)
	if err != nil {
		return nil, limits, err
	}
	c.record.Start = time.Now()
	if c.req, err = chat.ParseRequest(body); err != nil {
		return nil, limits, err
	}
	c.record.Model, c.record.Stream = c.req.Model, c.req.Stream
	if c.model, err = modelFor(c.info, c.req.Model); err != nil {
		return nil, limits, err
	}
	if introduce := c.info.site.Introduce; introduce != nil {
		introduce(c.r.Context(), c.info.caller.Fields, c.r.Header)
	}
	if limits, err = limitsFor(c.r.Header, c.info.caller.Budget.Narrow(c.model.Limits)); err != nil {
		return nil, limits, err
	}
	view, err := viewFor(c.r.Header, c.info, c.model, c.req)
	if err == nil {
		err = c.readFormat()
	}
	if err == nil {
		err = c.readProgress()
	}
	return view, limits, err
}

// readFormat reads the schema that the answer has to fit. A provider that is asked for it may take one that the gateway
// can't check; one that is not can't.
func (c *completion) readFormat() error {
	format, err := structured.Read(c.req.Member("response_format"))
	if err != nil && loop.FormatWay(c.model.Structured) == loop.Tool {
		return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: "response_format", Message: err.Error()}
	}
	c.format = format
	return nil
}

// readProgress reads how running tools are to show in the stream.
func (c *completion) readProgress() error {
	c.progress = c.info.site.Streaming.Progress
	switch p := Progress(first(c.r.Header, headerProgress)); p {
	case "":
	case progressOff, progressComment, progressReasoning:
		c.progress = p
	default:
		return badHeader(headerProgress, "off, comment or reasoning")
	}
	return nil
}

// passes says whether there is nothing to run: no tool of the gateway's, none of the client's that the model would not
// be told of, and no answer that is asked for by a tool.
func (c *completion) passes(view *registry.View) bool {
	switch {
	case view.Len() > 0:
		return false
	case c.req.Legacy:
		return true
	case c.format != nil && loop.FormatWay(c.model.Structured) == loop.Tool:
		return false
	}
	return !c.model.Prompt || c.req.ClientTools() == 0 && !bytes.Contains(c.req.Member("messages"), []byte(`"tool_calls"`))
}

// completion is one chat completion under way.
type completion struct {
	*Server
	w      http.ResponseWriter
	r      *http.Request
	info   *requestInfo
	model  *models.Model
	req    *chat.Request
	format *structured.Format // what the answer has to fit, nil without

	progress Progress
	record   *trace.Run
	failure  *Error // of the run, once it has ended
}

// limitsFor is what the client's headers leave of a budget. They only ever lower it.
func limitsFor(h http.Header, l budget.Limits) (budget.Limits, error) {
	var narrow budget.Config
	if text := first(h, headerMaxSteps); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return l, badHeader(headerMaxSteps, "a whole number from 1")
		}
		narrow.MaxSteps = &n
	}
	if text := first(h, headerMaxSeconds); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return l, badHeader(headerMaxSeconds, "a number of seconds above 0")
		}
		narrow.MaxSeconds = &n
	}
	l = narrow.Narrow(l)
	// One second below the client's own clock, so that it gets the gateway's reply rather than its own timeout.
	if text := first(h, headerReadTimeout); text != "" {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n > 1 && n < 1e6 {
			left := n - 1
			l = budget.Config{MaxSeconds: &left}.Narrow(l)
		}
	}
	return l, nil
}

func badHeader(name, want string) error {
	return &Error{Status: http.StatusBadRequest, Type: invalidRequest, Param: name, Message: fmt.Sprintf("%s: want %s", name, want)}
}

// viewFor is what of the gateway's tools a request gets: none with tool_choice none or with functions, the form before
// tools, which no provider takes beside them.
func viewFor(h http.Header, i *requestInfo, m *models.Model, req *chat.Request) (*registry.View, error) {
	view := i.site.view(i.caller, m)
	if text := first(h, headerTools); text != "" {
		list, err := parseTools(text)
		if err != nil {
			return nil, badHeader(headerTools, "names or globs parted by commas, or none")
		}
		view = view.Narrow(list)
	}
	if req.ToolChoice == "none" || req.Legacy {
		none, err := globs.Parse([]string{})
		return view.Narrow(none), err
	}
	return view.Without(req.Declares), nil
}

func parseTools(text string) (globs.List, error) {
	if strings.TrimSpace(text) == "none" {
		return globs.Parse([]string{})
	}
	var patterns []string
	for p := range strings.SplitSeq(text, ",") {
		patterns = append(patterns, strings.TrimSpace(p))
	}
	return globs.Parse(patterns)
}

// run makes a run for each choice that is asked for, and answers with their end.
func (c *completion) run(view *registry.View, limits budget.Limits) error {
	var w *wire
	if c.req.Stream {
		w = newWire(c)
		defer w.close()
	}
	all := c.newChoices(view, limits, w)
	result, err := all.run(c.r.Context())
	if err == nil && w == nil {
		var reply json.RawMessage
		if reply, err = c.reply(all, result); err == nil {
			c.ended(result, nil)
			for i, own := range all.results {
				if own.Hold != nil {
					c.hold(c.r.Context(), own, gjson.GetBytes(reply, "choices."+strconv.Itoa(i)+".message.content").String())
				}
			}
			return c.send(result, reply)
		}
	}
	if err != nil {
		p := problem(err).afterTools(result, c.r.Header)
		p.NoRetry = p.NoRetry || p.Code == string(loop.Exhausted)
		c.ended(result, p)
		c.headers(result)
		if w != nil && w.fail(p) {
			c.info.failure = p.Code
			p.log(c.r.Context(), c.log, c.info)
			return nil
		}
		c.w.Header().Set(trace.Header, c.record.Dictionary())
		return p
	}
	c.ended(result, nil)
	return gone(w.finish(all.streams, all.results, result.Usage))
}

// newRun is a run of the request, to be recorded in record.
func (c *completion) newRun(view *registry.View, limits budget.Limits, record *trace.Run) *loop.Run {
	run := &loop.Run{
		Request:      c.req,
		Model:        c.model.Routes,
		View:         view,
		Prompt:       c.model.Prompt,
		Format:       c.format,
		FormatWay:    loop.FormatWay(c.model.Structured),
		Limits:       limits,
		Price:        c.model.Price,
		Instructions: c.model.Instructions,
		Defaults:     c.model.Defaults,
		Header:       c.info.toProvider(c.r.Header, true),
		Client:       c.r.Header,
		ClientKey:    bearer(c.r),
		Key:          first(c.r.Header, headerIdempotent),
		Turns:        c.opts.Turns,
		Memory:       c.remembers(),
		Record:       record,
		Content:      c.info.site.TraceContent,
		Logger:       c.log,
		Now:          time.Now,
	}
	if c.guards() {
		run.Guard, run.Instructions = c.guard, c.model.Guarded
	}
	return run
}

// guards says whether results of tools are marked as data.
func (c *completion) guards() bool {
	if g := c.model.Guard; g != "" {
		return g == "mark"
	}
	return c.info.site.Guard
}

// remembers says whether tool turns that the client does not see are held for its next request.
func (c *completion) remembers() bool {
	switch m := c.model.Memory; {
	case c.req.N > 1: // of several answers nobody knows which one the client goes on with
		return false
	case m != "":
		return m == "held"
	}
	return c.info.site.Memory
}

// hold holds the run's tool turns, now that it is known how its answer reads to the client.
func (c *completion) hold(ctx context.Context, result *loop.Result, answer string) {
	if result.Hold != nil {
		result.Hold(context.WithoutCancel(ctx), answer) // a client that leaves now may come back
	}
}

// ended completes the run's record and counts it.
func (c *completion) ended(result *loop.Result, p *Error) {
	c.failure = p
	c.record.Took = time.Since(c.record.Start)
	if p != nil {
		c.record.Error = p.Code
		if c.record.Stop == "" {
			c.record.Stop = string(loop.Failed)
		}
	}
	c.info.stop = c.record.Stop
	var tokens chat.Tokens
	if result != nil {
		tokens = result.Tokens
	}
	c.spend(c.r, limit.Use{Tokens: tokens.Total, Cost: c.record.Cost})
	c.metrics.ended(c.model.Label, c.record.Stop, len(c.record.Steps), tokens, c.record.Cost)
	c.opts.Store.Add(c.record)
}

// reply is the body of an answer in one piece: that of the first choice, with the others in it.
func (c *completion) reply(all *choices, sum *loop.Result) (json.RawMessage, error) {
	var reply json.RawMessage
	for i, result := range all.results {
		e := chat.ReplyEdits{Content: result.Content, Finish: result.Finish, Calls: result.Calls, Fallback: c.envelope()}
		if i == 0 && len(c.record.Steps) > 1 {
			e.Usage = sum.Usage
		}
		if i == 0 && c.wantsTrace() {
			c.record.Took = time.Since(c.record.Start)
			var err error
			if e.Gateway, err = json.Marshal(c.record); err != nil {
				return nil, err
			}
		}
		own, err := result.Turn.ReplyFor(e)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			reply = own
			continue
		}
		if reply, err = chat.WithChoice(reply, own, i); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// envelope is what stands around an answer where the provider left it out.
func (c *completion) envelope() chat.Envelope {
	return chat.Envelope{
		ID:      "chatcmpl-" + strings.TrimPrefix(c.record.ID, "run_"),
		Created: strconv.FormatInt(c.record.Start.Unix(), 10),
		Model:   c.req.Model,
	}
}

// wantsTrace says whether the client wants the whole trace in the body.
func (c *completion) wantsTrace() bool { return first(c.r.Header, trace.Header) == "full" }

// headers sets what the reply says of the run's last model call.
func (c *completion) headers(result *loop.Result) {
	h := c.w.Header()
	if result != nil && result.Header != nil {
		copyLimits(h, result.Header)
	}
	h.Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(c.record.Start).Milliseconds(), 10))
}

func (c *completion) send(result *loop.Result, reply []byte) error {
	c.headers(result)
	h := c.w.Header()
	if c.record.Approval != "" {
		h.Set(headerApproval, c.record.Approval)
	}
	h.Set(trace.Header, c.record.Dictionary())
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(reply)))
	newPatience(c.w).begin()
	_, err := c.w.Write(reply)
	return gone(err)
}

// pass hands a chat completion without tools to its upstream, its bytes untouched but for what the model's
// configuration says.
func (c *completion) pass() error {
	p := upstream.Pass{
		Method:    http.MethodPost,
		Header:    c.info.toProvider(c.r.Header, false),
		ClientKey: bearer(c.r),
		Request:   c.req,
		Edits:     chat.Edits{Before: c.model.Instructions, Default: c.missing()},
	}
	if tools := c.req.Member("tools"); tools != nil && c.req.ClientTools() == 0 && emptyList(tools) {
		p.Edits.Drop = []string{"tools", "tool_choice", "parallel_tool_calls"} // several providers refuse an empty list
	}
	start := time.Now()
	resp, err := c.model.Routes.Pass(c.r.Context(), p)
	c.record.Steps = append(c.record.Steps, trace.Step{Start: start.Sub(c.record.Start), Took: time.Since(start)})
	c.record.Stop = string(loop.Completed)
	c.w.Header().Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(c.record.Start).Milliseconds(), 10))
	if err != nil {
		c.record.Stop = string(loop.UpstreamError)
		p := problem(err)
		if p.Status == statusClientGone {
			c.record.Stop = string(loop.Canceled)
		}
		c.ended(nil, p)
		c.w.Header().Set(trace.Header, c.record.Dictionary())
		return c.refuse(err, p)
	}
	defer resp.Body.Close()
	defer c.metered(c.r, resp, c.req.Member("messages"), c.model.Price)()
	copyReply(c.w.Header(), resp.Header)
	if !c.req.Stream {
		c.record.Took = time.Since(c.record.Start)
		c.w.Header().Set(trace.Header, c.record.Dictionary())
	}
	c.w.WriteHeader(resp.StatusCode)
	var began func()
	if c.req.Stream {
		began = func() { c.metrics.firstToken.Observe(time.Since(c.record.Start).Seconds()) }
	}
	if err := copyBody(c.w, resp, began); err != nil {
		c.record.Stop = string(loop.UpstreamError)
		if c.r.Context().Err() != nil {
			c.record.Stop = string(loop.Canceled)
		}
		c.ended(nil, &Error{Code: "upstream_error"})
		c.log.Warn("reply was cut off", slog.String("run_id", c.record.ID), slog.Any("err", err))
		panic(http.ErrAbortHandler) // as in forward: an orderly end would hide that something is missing
	}
	c.ended(nil, nil)
	return nil
}

// refuse passes a provider's refusal on as it came; any other failure is the gateway's own error, as is a refusal that no
// client could read: a list, as Gemini sends it, or no JSON.
func (c *completion) refuse(err error, p *Error) error {
	var e *upstream.Error
	if errors.As(err, &e) && p.Body != nil && (e.Kind == upstream.Refused || e.Kind == upstream.Busy) {
		p.log(c.r.Context(), c.log, c.info)
		return passRefusal(c.w, c.info, e)
	}
	return p
}

// missing are the defaults that the client did not set itself.
func (c *completion) missing() []chat.Pair {
	var pairs []chat.Pair
	for _, p := range c.model.Defaults {
		if c.req.Member(p.Name) == nil && p.Name != "tool_choice" {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func emptyList(list []byte) bool { return strings.TrimSpace(strings.Trim(string(list), "[]")) == "" }
