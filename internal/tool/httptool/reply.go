package httptool

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	maxReply   = 4 << 20 // bytes of a reply, unpacked
	maxExcerpt = 2 << 10 // bytes of an error's body that go to the log
)

var errTooLarge = errors.New("it is over 4 MiB")

// readAll is the whole body of a reply to a request of the method, unpacked. An error is an *unreadable one unless the
// connection broke.
func readAll(method string, reply *http.Response) ([]byte, error) {
	if method == http.MethodHead {
		return nil, nil // its Content-Length is that of a GET
	}
	if reply.ContentLength > maxReply {
		return nil, &unreadable{errTooLarge}
	}
	wire := &watched{r: reply.Body}
	from, err := unpacked(wire, reply.Header.Get("Content-Encoding"))
	if err == nil {
		var b bytes.Buffer
		b.Grow(int(min(max(reply.ContentLength, 0), 512<<10)) + bytes.MinRead)
		_, err = b.ReadFrom(io.LimitReader(from, maxReply+1))
		switch {
		case b.Len() > maxReply:
			err = errTooLarge
		case err == nil:
			drain(reply)
			return b.Bytes(), nil
		}
	}
	if wire.err != nil {
		return nil, wire.err
	}
	return nil, &unreadable{err}
}

// unpacked is a body without its content coding (RFC 9110, 8.4). What comes over the wire is bounded here, what comes
// out is for the caller to bound.
func unpacked(wire io.Reader, coding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return wire, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(io.LimitReader(wire, maxReply))
		if errors.Is(err, io.EOF) { // nothing was packed at all, as in a 204
			return bytes.NewReader(nil), nil
		}
		return z, err
	}
	return nil, errors.New("its content coding is unknown")
}

// watched keeps the error of a connection apart from what a decoder makes of it.
type watched struct {
	r   io.Reader
	err error // nil at a proper end
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// excerpt is the status and the beginning of the body of an error, for the log.
func excerpt(reply *http.Response) string {
	if reply.StatusCode == http.StatusSwitchingProtocols { // such a body is the connection, which no context ends
		return reply.Status
	}
	defer drain(reply)
	from, err := unpacked(reply.Body, reply.Header.Get("Content-Encoding"))
	if err != nil {
		return reply.Status
	}
	data, _ := io.ReadAll(io.LimitReader(from, maxExcerpt)) // as far as it came
	return reply.Status + ": " + string(validUTF8(data))
}

// text is what the model reads of a good reply.
func (p *plan) text(ctx context.Context, contentType string, data []byte) (string, error) {
	if len(data) == 0 {
		return "", nil
	}
	if p.result == nil && p.failWhen == nil {
		return plainText(contentType, data), nil
	}
	data = unicodeText(contentType, data)
	v, err := decode(data)
	if err != nil {
		return "", &unreadable{err}
	}
	if p.failWhen != nil {
		switch failed, err := p.failWhen.holds(ctx, v); {
		case err != nil:
			return "", &unreadable{fmt.Errorf("fail_when: %w", err)}
		case failed:
			return "", errFailWhen
		}
	}
	if p.result == nil {
		return string(data), nil
	}
	text, err := p.result.text(ctx, v)
	if err != nil {
		return "", &unreadable{fmt.Errorf("result: %w", err)}
	}
	return text, nil
}

// plainText is a reply as text: valid UTF-8 without a byte order mark, or one line where it is none.
func plainText(contentType string, data []byte) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = baseType(contentType)
	}
	if media == "" {
		media = baseType(http.DetectContentType(data))
	}
	if !isText(media, data) {
		return fmt.Sprintf("[%s, %d bytes]", mediaName(media), len(data))
	}
	return string(unicodeText(contentType, data))
}

// isText says whether data of a media type is for reading.
func isText(media string, data []byte) bool {
	kind, _, _ := strings.Cut(media, "/")
	switch {
	case kind == "text", isJSON(media), strings.HasSuffix(media, "xml"):
		return true
	case kind == "image", kind == "audio", kind == "video", kind == "font", kind == "model":
		return false
	}
	switch media {
	case "application/octet-stream", "application/pdf", "application/zip", "application/gzip":
		return false
	}
	// Of the many others, some are text (application/javascript, application/yaml) and some are not; no text has a NUL.
	return bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}

// mediaName is a media type that a service named, if it looks like one: it is read by the model.
func mediaName(media string) string {
	kind, sub, ok := strings.Cut(media, "/")
	if !ok || len(media) > 80 || !isName(kind) || !isName(sub) {
		return "application/octet-stream"
	}
	return media
}

func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("+-._", r)
	})
}

// unicodeText is a text as valid UTF-8 without a byte order mark. Of other charsets, only ISO 8859-1 is known.
func unicodeText(contentType string, data []byte) []byte {
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		switch strings.ToLower(params["charset"]) {
		case "iso-8859-1", "latin1", "iso8859-1":
			return latin1(data)
		}
	}
	return validUTF8(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
}

func validUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

// latin1 decodes ISO 8859-1, whose bytes are the first 256 characters of Unicode.
func latin1(data []byte) []byte {
	text := make([]byte, 0, len(data)+len(data)/8)
	for _, c := range data {
		text = utf8.AppendRune(text, rune(c))
	}
	return text
}
