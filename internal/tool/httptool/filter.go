package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/itchyny/gojq"
)

// filter is a compiled jq program. It is for many goroutines at once.
type filter struct{ code *gojq.Code }

var (
	errEnvironment = errors.New("env and $ENV are not available")
	errUnended     = errors.New("the program ends too early: a bracket, a quote or an end is missing")
	errOutput      = errors.New("the program's output is over 4 MiB")
)

// filter compiles the jq program of a key; none is nil. Programs have no modules, no input and no environment.
func (b *builder) filter(key, src string) *filter {
	if src == "" {
		return nil
	}
	f, err := newFilter(src)
	if err != nil {
		b.n.Get(key).Fail("jq: %v", err)
	}
	return f
}

func newFilter(src string) (*filter, error) {
	query, err := gojq.Parse(src)
	if err != nil && err.Error() == "unexpected EOF" {
		return nil, errUnended
	}
	if err != nil {
		return nil, err
	}
	env := false
	code, err := gojq.Compile(query, gojq.WithEnvironLoader(func() []string {
		env = true // only called for a program that asks
		return nil
	}))
	switch {
	case err != nil:
		return nil, err
	case env:
		return nil, errEnvironment
	}
	return &filter{code}, nil
}

// text is what the program makes of v: no result or null is nothing, one string is its text, any other one its JSON,
// several are a JSON list of them. A text over the limit for replies is an error.
//
// The time of a program ends with ctx, its memory is bounded as guarded says.
func (f *filter) text(ctx context.Context, v any) (string, error) {
	var first any
	var list bytes.Buffer
	n := 0
	ctx, stop := guarded(ctx)
	defer stop()
	results := f.code.RunWithContext(ctx, v)
	for {
		v, ok := results.Next()
		if !ok {
			break
		}
		if err, ok := v.(error); ok {
			return "", ended(ctx, err)
		}
		if n++; n == 1 {
			first = v
			continue
		}
		if n == 2 {
			list.WriteByte('[')
			if err := writeJQ(&list, first); err != nil {
				return "", err
			}
		}
		list.WriteByte(',')
		if err := writeJQ(&list, v); err != nil {
			return "", err
		}
	}
	switch s, isText := first.(string); {
	case n > 1:
		list.WriteByte(']')
	case first == nil:
	case isText && len(s) > maxReply:
		return "", errOutput
	case isText:
		return s, nil
	default:
		if err := writeJQ(&list, first); err != nil {
			return "", err
		}
	}
	return list.String(), nil
}

// ended is the error of a program, or why it was ended.
func ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errMemory) {
		return errMemory
	}
	return err
}

func writeJQ(b *bytes.Buffer, v any) error {
	text, err := gojq.Marshal(v)
	if err != nil {
		return err
	}
	if b.Len()+len(text) > maxReply {
		return errOutput
	}
	b.Write(text)
	return nil
}

// holds says whether the program gives anything but false and null, which is what jq takes for true.
func (f *filter) holds(ctx context.Context, v any) (bool, error) {
	ctx, stop := guarded(ctx)
	defer stop()
	results := f.code.RunWithContext(ctx, v)
	for {
		v, ok := results.Next()
		if !ok {
			return false, nil
		}
		if err, ok := v.(error); ok {
			return false, ended(ctx, err)
		}
		if v != nil && v != false {
			return true, nil
		}
	}
}

// decode reads one JSON value for a program. Numbers keep their spelling until the program computes with them.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the first JSON value")
	}
	return v, nil
}
