package outbound

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
)

// write writes a request that direct takes, as (*http.Request).Write does. What is usual is written here, for a third of
// the time; all else, such as another Host than that of the URL, or a length of no body, by that.
func write(w *bufio.Writer, r *http.Request) error {
	target := r.URL.RequestURI()
	noBody := hasNoBody(r)
	if r.Host != "" && r.Host != r.URL.Host || !isUsualHost(r.URL.Host) || !isVisible(target) || noBody && r.ContentLength != 0 {
		return r.Write(inOnePiece{w})
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	// What a bufio.Writer could not write it says with all that follows, and with Flush.
	_, _ = w.WriteString(method)
	_ = w.WriteByte(' ')
	_, _ = w.WriteString(target)
	_, _ = w.WriteString(" HTTP/1.1\r\n")
	writeField(w, "Host", r.URL.Host)
	if agents, ok := r.Header["User-Agent"]; !ok {
		writeField(w, "User-Agent", "Go-http-client/1.1")
	} else if len(agents) > 0 && agents[0] != "" {
		writeField(w, "User-Agent", agents[0])
	}
	if !noBody || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		var digits [20]byte
		_, _ = w.WriteString("Content-Length: ")
		_, _ = w.Write(strconv.AppendInt(digits[:0], r.ContentLength, 10))
		_, _ = w.WriteString("\r\n")
	}
	for name, values := range r.Header {
		if ownFields[name] {
			continue
		}
		for _, v := range values {
			writeField(w, name, v)
		}
	}
	_, _ = w.WriteString("\r\n")
	if noBody {
		return nil
	}
	return writeBody(w, r)
}

// ownFields are those that http.Request.Header does not decide.
var ownFields = map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

func writeField(w *bufio.Writer, name, value string) {
	_, _ = w.WriteString(name)
	_, _ = w.WriteString(": ")
	_, _ = w.WriteString(textproto.TrimString(value))
	_, _ = w.WriteString("\r\n")
}

var errLength = errors.New("outbound: the body's length is not what was said")

// writeBody writes and closes a request's body: no more than was announced, which would be another request.
func writeBody(w *bufio.Writer, r *http.Request) error {
	defer r.Body.Close()
	n, err := w.ReadFrom(&io.LimitedReader{R: r.Body, N: r.ContentLength})
	if err != nil {
		return err
	}
	var more [1]byte
	if extra, err := r.Body.Read(more[:]); n != r.ContentLength || extra > 0 {
		return errLength
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// isUsualHost says whether a host is one of letters, digits, dots and hyphens, or an address, with a port or without.
func isUsualHost(host string) bool {
	for _, c := range []byte(host) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '-', c == ':', c == '[', c == ']', c == '_':
		default:
			return false
		}
	}
	return host != ""
}

// isVisible says whether a text is made of visible ASCII characters.
func isVisible(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
