package proxy

import (
	"net/http"
	"time"
)

// writeTimeout bounds how long a client may take to read what is written at once.
const writeTimeout = 60 * time.Second

// patience is how long a client may take to read what is written.
type patience struct {
	rc    *http.ResponseController
	limit time.Duration
	set   time.Time // when the deadline was
}

func (s *Server) patience(w http.ResponseWriter) *patience {
	return &patience{rc: http.NewResponseController(w), limit: s.writeTimeout}
}

// begin is called before a write.
func (p *patience) begin() {
	if now := time.Now(); now.Sub(p.set) > p.limit/10 { // pieces come fast, and deadlines are not for nothing
		p.set = now
		_ = p.rc.SetWriteDeadline(now.Add(p.limit)) // without support, as in tests, there is none
	}
}
