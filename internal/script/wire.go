package script

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/config"
)

// Wire is how the bytes of a body go over the connection. Bytes are counted as they are sent, compressed ones too.
type Wire struct {
	FirstByteDelay config.Duration `yaml:"first_byte_delay" doc:"Wait between the header and the body. Default 0."`
	ChunkBytes     int             `yaml:"chunk_bytes" min:"1" doc:"Send pieces of that many bytes, also in the middle of lines and characters. Default as it comes."`
	Stall          *Stall          `yaml:"stall" doc:"A wait in the middle of the body."`
	CutAfter       *config.Size    `yaml:"cut_after" doc:"Close the connection after that many bytes of the body; 0 is before the status line. Default never."`
	Encoding       string          `yaml:"encoding" enum:"gzip" doc:"gzip: compress the body, whether the client takes it or not. Default not."`
}

// Stall is a wait in the middle of a body.
type Stall struct {
	After config.Size     `yaml:"after" doc:"Bytes of the body ahead of the wait. Default 0."`
	For   config.Duration `yaml:"for" doc:"The wait."`
}

// Check reports what can't work.
func (s *Stall) Check(n *config.Node) {
	if s.For == 0 {
		n.Fail("for is missing: want how long, such as 10s")
	}
}

// Why a reply was not sent to its end.
var (
	errLeft = errors.New("the client has left")
	errCut  = errors.New("the script cuts the reply here")
)

// wait waits, or fails when ctx ends first or has ended.
func wait(ctx context.Context, d config.Duration) error {
	if ctx.Err() != nil {
		return errLeft
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(time.Duration(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errLeft
	}
}

// send sends the reply of turn t, with its waits. Its errors are errLeft and errCut; after errCut the connection must
// be closed.
func send(ctx context.Context, w http.ResponseWriter, t *Turn, r reply) error {
	if err := wait(ctx, t.Delay); err != nil {
		return err
	}
	if t.CutAfter != nil && *t.CutAfter == 0 {
		return errCut
	}
	w.Header().Set("Content-Type", r.contentType)
	if t.Encoding != "" {
		w.Header().Set("Content-Encoding", t.Encoding)
	}
	for name, v := range t.Headers.All() {
		w.Header().Set(name, v)
	}
	w.WriteHeader(r.status)
	out := &wire{
		Wire: &t.Wire, out: w, flush: http.NewResponseController(w).Flush,
		wait: func(d config.Duration) error { return wait(ctx, d) },
	}
	if t.FirstByteDelay > 0 {
		_ = out.flush()
		if err := out.wait(t.FirstByteDelay); err != nil {
			return err
		}
	}
	if t.Encoding == "" {
		return out.sendAll(t, r, out, func() error { return nil })
	}
	z := gzip.NewWriter(out)
	if err := out.sendAll(t, r, z, z.Flush); err != nil {
		return err
	}
	return z.Close()
}

// wire writes a body as its Wire says.
type wire struct {
	*Wire
	out     io.Writer
	flush   func() error // a recorder in a test can't
	wait    func(config.Duration) error
	sent    int64
	stalled bool
}

// sendAll writes the pieces to w, which ends in out; push makes w give on what it holds.
func (o *wire) sendAll(t *Turn, r reply, w io.Writer, push func() error) error {
	for i, piece := range r.pieces {
		if i > 0 {
			if err := o.wait(t.Between); err != nil {
				return err
			}
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if !r.stream {
			continue
		}
		if err := push(); err != nil {
			return err
		}
		_ = o.flush()
	}
	return nil
}

// Write sends b in pieces. Whatever keeps it from doing so is errLeft or errCut.
func (o *wire) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		n := len(b)
		if o.ChunkBytes > 0 {
			n = min(n, o.ChunkBytes)
		}
		if o.CutAfter != nil {
			n = int(min(int64(n), int64(*o.CutAfter)-o.sent))
		}
		if o.Stall != nil && !o.stalled {
			ahead := int64(o.Stall.After) - o.sent
			if ahead <= 0 {
				o.stalled = true
				_ = o.flush()
				if err := o.wait(o.Stall.For); err != nil {
					return written, err
				}
				continue
			}
			n = int(min(int64(n), ahead))
		}
		if _, err := o.out.Write(b[:n]); err != nil {
			return written, errLeft
		}
		b, written, o.sent = b[n:], written+n, o.sent+int64(n)
		if o.ChunkBytes > 0 {
			_ = o.flush()
		}
		if o.CutAfter != nil && o.sent >= int64(*o.CutAfter) {
			_ = o.flush()
			return written, errCut
		}
		if err := o.wait(0); err != nil {
			return written, err
		}
	}
	return written, nil
}
