package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest bounds what a Retry-After header may ask for, so that no sum with it overflows.
const longest = 24 * time.Hour

// ParseRetryAfter reads a Retry-After header (RFC 9110, 10.2.3), seconds or an HTTP date, as a wait from now. It is 0
// when the header is absent, nonsense or past, and at most a day.
func ParseRetryAfter(h string, now time.Time) time.Duration {
	h = strings.TrimSpace(h)
	if h == "" {
		return 0
	}
	// A fraction of a second is not in the RFC, but some services send one.
	if s, err := strconv.ParseFloat(h, 64); err == nil {
		switch {
		case !(s > 0): // NaN as well
			return 0
		case s >= longest.Seconds():
			return longest
		}
		return time.Duration(s * float64(time.Second))
	}
	at, err := http.ParseTime(h)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}
