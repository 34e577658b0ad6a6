package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	attached = 20 // tools that are offered, but in scenarioStart
	many     = 50 // tools there
)

// nothingHeld is for a stream of which no text is held back until it is clear that it is the answer.
const nothingHeld = "streaming: {hold: 0}\n"

// measure runs what the rows want.
func (s *setup) measure(ctx context.Context, rows []row) (results, error) {
	wanted := func(id string) bool { return slices.ContainsFunc(rows, func(r row) bool { return r.id == id }) }
	found := results{}
	var loaded *afterLoad
	if wanted(scenarioMemory) { // first, so that its time passes while the others are measured
		var err error
		if loaded, err = s.load(ctx); err != nil {
			return nil, err
		}
	}
	if wanted(scenarioStart) {
		if err := s.measureStart(ctx, found); err != nil {
			return nil, err
		}
	}
	if err := s.measureParts(ctx, plan(rows), found); err != nil {
		return nil, err
	}
	if wanted(scenarioSteps) {
		if err := s.measureSteps(ctx, found); err != nil {
			return nil, err
		}
	}
	if wanted(scenarioF) {
		if err := s.measureStreams(ctx, found); err != nil {
			return nil, err
		}
	}
	if loaded != nil {
		if err := s.settle(loaded, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// measureParts runs the harness, all its targets in turn, round by round.
func (s *setup) measureParts(ctx context.Context, parts []part, found results) error {
	if len(parts) == 0 {
		return nil
	}
	usual, err := s.serve(ctx, attached, "")
	if err != nil {
		return err
	}
	defer usual.end()
	var unheld *gateway
	for _, p := range parts {
		if unheld == nil && slices.Contains(p.targets, now) {
			if unheld, err = s.serve(ctx, attached, nothingHeld); err != nil {
				return err
			}
			defer unheld.end()
		}
		if err := s.harnessRun(ctx, p, s.o.rounds, usual, unheld, found); err != nil {
			return err
		}
		if err := os.Truncate(usual.log, 0); err != nil { // a line a request fills a disk
			return err
		}
	}
	return nil
}

// target is one as the harness takes it.
type target struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Loop    string            `json:"loop,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func (s *setup) target(name string, usual, unheld *gateway) target {
	at := func(addr, key string) target {
		return target{Name: name, URL: "http://" + addr + "/v1", Headers: map[string]string{"Authorization": "Bearer " + key}}
	}
	switch name {
	case direct:
		return target{Name: name, URL: "http://" + s.addr["mock"] + "/v1", Loop: "client"}
	case revproxy:
		return target{Name: name, URL: "http://" + s.addr["proxy"] + "/v1", Loop: "client"}
	case refloop:
		return target{Name: name, URL: "http://" + s.addr["refloop"] + "/v1"}
	case pass:
		return at(usual.addr, passKey)
	case lookup:
		return at(usual.addr, lookupKey)
	case now:
		return at(unheld.addr, toolsKey)
	}
	return at(usual.addr, toolsKey)
}

// harnessRun is one call of the harness; its own tables go to stderr. The runs are put behind those that are found.
func (s *setup) harnessRun(ctx context.Context, p part, rounds int, usual, unheld *gateway, found results) error {
	var targets []target
	for _, name := range p.targets {
		targets = append(targets, s.target(name, usual, unheld))
	}
	list, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	in, out := filepath.Join(s.dir, "targets.json"), filepath.Join(s.dir, "runs.json")
	if err := os.WriteFile(in, list, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.harness, "compare", "-targets", in, "-only", strings.Join(p.scenarios, ","), //nolint:gosec // built here
		"-rounds", strconv.Itoa(rounds), "-dur", s.o.dur.String(), "-warm", "300ms", "-json", out,
		"-mock", "http://"+s.addr["mock"], "-tool", "http://"+s.addr["tool"])
	cmd.Stdout, cmd.Stderr = s.stderr, s.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bench compare -only %s: %w", strings.Join(p.scenarios, ","), errors.Join(err, context.Cause(ctx)))
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	var runs results
	if err := json.Unmarshal(data, &runs); err != nil {
		return fmt.Errorf("bench compare: its reports: %w", err)
	}
	for id, byTarget := range runs {
		for name, reports := range byTarget {
			found.add(id, name, reports...)
		}
	}
	return nil
}

func (r results) add(id, target string, reports ...report) {
	if r[id] == nil {
		r[id] = map[string][]report{}
	}
	r[id][target] = append(r[id][target], reports...)
}

// measureStreams holds a thousand streams, each round in a gateway that has taken no memory before.
func (s *setup) measureStreams(ctx context.Context, found results) error {
	for range s.o.rounds {
		g, err := s.serve(ctx, attached, "")
		if err != nil {
			return err
		}
		err = s.harnessRun(ctx, part{[]string{scenarioF}, []string{tools}}, 1, g, nil, found)
		g.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// measureStart starts a gateway once a round.
func (s *setup) measureStart(ctx context.Context, found results) error {
	for range s.o.rounds {
		g, err := s.serve(ctx, many, "")
		if err != nil {
			return err
		}
		g.end()
		found.add(scenarioStart, tools, report{Requests: 1, P50: float64(g.ready.Microseconds())})
	}
	return nil
}

// measureSteps makes runs of few and of many steps, as many steps of each.
func (s *setup) measureSteps(ctx context.Context, found results) error {
	g, err := s.serve(ctx, attached, "")
	if err != nil {
		return err
	}
	defer g.end()
	const runs = 20 // of many steps, some hundred times the clock's tick of CPU
	for range s.o.rounds {
		for _, steps := range []struct {
			target string
			n      int
		}{{fewSteps, 50}, {manySteps, 200}} {
			r, err := s.harnessLoad(ctx, g, "-model", fmt.Sprintf("tools-%dx1", steps.n), "-c", "1", "-n", strconv.Itoa(runs*200/steps.n))
			if err != nil {
				return err
			}
			found.add(scenarioSteps, steps.target, r)
		}
	}
	return nil
}

// harnessLoad is one load run against a gateway's tools.
func (s *setup) harnessLoad(ctx context.Context, g *gateway, args ...string) (report, error) {
	cmd := exec.CommandContext(ctx, s.harness, append([]string{"load", "-url", "http://" + g.addr + "/v1", //nolint:gosec // built here
		"-H", "Authorization: Bearer " + toolsKey, "-pid", strconv.Itoa(g.cmd.Process.Pid)}, args...)...)
	cmd.Stderr = s.stderr
	out, err := cmd.Output()
	var r report
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		return r, fmt.Errorf("bench load %s: %w", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)))
	}
	return r, nil
}

// afterLoad is a gateway that had work.
type afterLoad struct {
	idle    float64 // MB, before it
	reports []report
	back    chan settled // one value, once the memory is back or the time for that is over
}

type settled struct {
	mb    float64
	after time.Duration
	err   error
}

const (
	idleAfter  = 2 * time.Second // from when it is ready
	settleTime = 5 * time.Minute // after load
	settleLook = 2 * time.Second
)

// load gives a gateway work that takes memory: long conversations, streams, and a thousand of them at once. Then it has
// nothing to do, and is looked at while others are measured.
func (s *setup) load(ctx context.Context) (*afterLoad, error) {
	g, err := s.serve(ctx, attached, "")
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, idleAfter); err != nil {
		return nil, err
	}
	l := &afterLoad{back: make(chan settled, 1)}
	if l.idle, err = g.resident(); err != nil {
		return nil, err
	}
	for _, work := range [][]string{
		{"-model", "tools-1x1", "-size", "200000", "-c", "16"},
		{"-model", "plain-200", "-stream", "-c", "32"},
		{"-model", "plain-4-d1000", "-stream", "-hold", "-c", "1000"},
	} {
		r, err := s.harnessLoad(ctx, g, append(work, "-dur", s.o.dur.String())...)
		if err != nil {
			return nil, err
		}
		l.reports = append(l.reports, r)
	}
	go func() { // ends with settleTime or ctx
		for began := time.Now(); ; {
			mb, err := g.resident()
			after := time.Since(began)
			if err == nil && mb > 2*l.idle && after < settleTime {
				if err = pause(ctx, settleLook); err == nil {
					continue
				}
			}
			l.back <- settled{mb, after, err}
			return
		}
	}()
	return l, nil
}

// settle waits until the gateway has given its memory back, or the time for that is over.
func (s *setup) settle(l *afterLoad, found results) error {
	back := <-l.back
	if back.err != nil {
		return back.err
	}
	all, peak := report{RSS0: l.idle, RSS: back.mb}, 0.0
	for _, r := range l.reports {
		all.Requests += r.Requests
		all.Errors += r.Errors
		all.Error += r.Error
		peak = max(peak, r.RSS)
	}
	found.add(scenarioMemory, tools, all)
	fmt.Fprintf(s.stderr, "\nmemory: %.0f MB idle, %.0f MB under load, %.0f MB %s after it\n", l.idle, peak, back.mb, back.after.Round(time.Second))
	return nil
}

// resident is the process's resident memory in MB.
func (p *server) resident() (float64, error) {
	file := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	kb, err := strconv.Atoi(strings.TrimSuffix(firstAfter(file, "VmRSS"), " kB"))
	if err != nil {
		return 0, fmt.Errorf("resident memory of %s: %w", p.name, err)
	}
	return float64(kb) * 1024 / 1e6, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
