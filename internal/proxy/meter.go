package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/toolgate/toolgate/internal/budget"
	"github.com/toolgate/toolgate/internal/chat"
	"github.com/toolgate/toolgate/internal/limit"
)

// meter counts the tokens of a reply that is passed on unread. It keeps the last bytes, where the usage stands: in a
// stream in the last event but one, in other replies behind the choices.
type meter struct {
	io.ReadCloser
	asked  []byte // the request's body; nil for no estimate
	price  budget.Price
	stream bool
	seen   int64 // bytes, or of a stream events
	tail   []byte
}

// maxTail is how much of a reply's end is kept: a usage object with all its details is below 1 KiB.
const maxTail = 8 << 10

// metered puts a meter before a reply's body where its tokens count, and returns what pays for them at its end. asked
// is the request's body, for an estimate where the reply says nothing; nil is for none.
func (s *Server) metered(r *http.Request, resp *http.Response, asked []byte, price budget.Price) (pay func()) {
	whole := isJSON(resp.Header.Get("Content-Type"))
	if !info(r).grant.Counts() || asked == nil && !whole {
		return func() {}
	}
	m := &meter{ReadCloser: resp.Body, asked: asked, price: price, stream: !whole}
	resp.Body = m
	return func() { s.spend(r, m.use()) }
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if n > 0 {
		m.see(p[:n])
	}
	return n, err
}

func (m *meter) see(b []byte) {
	if m.stream {
		m.seen += int64(bytes.Count(b, []byte("data:"))) // one that is cut in two is missed, which an estimate may
	} else {
		m.seen += int64(len(b))
	}
	if len(b) >= maxTail {
		m.tail = append(m.tail[:0], b[len(b)-maxTail:]...)
		return
	}
	if over := len(m.tail) + len(b) - maxTail; over > 0 {
		m.tail = append(m.tail[:0], m.tail[over:]...)
	}
	m.tail = append(m.tail, b...)
}

// use is what the reply's usage says. Where it has none, as a stream that was not asked for it, it is an estimate, so that
// no client gets by without paying: an event is about a token, as are four bytes of text.
func (m *meter) use() limit.Use {
	t := chat.ReadTokens(lastUsage(m.tail))
	if t.Total <= 0 && m.asked != nil {
		t.Prompt, t.Completion = textSize(m.asked)/4, m.seen
		if !m.stream {
			t.Completion /= 4
		}
		t.Total = t.Prompt + t.Completion
	}
	return limit.Use{Tokens: t.Total, Cost: m.price.Cost(t.Prompt, t.Completion, t.Cached)}
}

// lastUsage is the last usage object in a piece of JSON, nil where there is none. In a text of the model's the quotes
// are escaped, so that it can't look like one.
func lastUsage(tail []byte) json.RawMessage {
	for {
		at := bytes.LastIndex(tail, []byte(`"usage"`))
		if at < 0 {
			return nil
		}
		value := bytes.TrimLeft(tail[at+len(`"usage"`):], " \t\r\n:")
		var usage json.RawMessage
		if bytes.HasPrefix(value, []byte("{")) && json.NewDecoder(bytes.NewReader(value)).Decode(&usage) == nil {
			return usage
		}
		tail = tail[:at]
	}
}

// textSize is the size of a request without images and the like, which cost by other measures than their bytes.
func textSize(body []byte) int64 {
	size := int64(len(body))
	for {
		_, data, ok := bytes.Cut(body, []byte(";base64,"))
		if !ok {
			return size
		}
		end := max(bytes.IndexByte(data, '"'), 0)
		size -= int64(end)
		body = data[end:]
	}
}
